// Who a process is, from flags and the variables of launchers; the meeting point and token files.
// ctest: labels=unit,core timeout=60
#include "comm/launch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/meeting_point.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

constexpr int64_t kParent = 4711;
constexpr const char* kSecret = "0123456789abcdef";

LaunchSettings workers(int count) {
  LaunchSettings s;
  s.workers = count;
  return s;
}

LaunchSettings by_hand(int rank, int size) {
  LaunchSettings s;
  s.rank = rank;
  s.size = size;
  s.rendezvous = "10.0.0.5:7000";
  s.token_file = "run.token";
  return s;
}

LaunchSettings place() {
  LaunchSettings s = by_hand(-1, 0);
  return s;
}

std::string error_of(const LaunchSettings& settings, const Variables& variables = {}) {
  try {
    who_am_i(settings, variables, kParent);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUser);
    return error.what();
  }
  return "no error";
}

void expect_error(const std::string& part, const LaunchSettings& settings,
                  const Variables& variables = {}) {
  const std::string text = error_of(settings, variables);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

Variables open_mpi(int rank, int size, int local_size) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(local_size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank % local_size)},
          {"PMIX_RANK", std::to_string(rank)},
          {"PMIX_NAMESPACE", "331546625"}};
}

Variables hydra(int rank, int size, int local_size) {
  return {{"PMI_RANK", std::to_string(rank)},
          {"PMI_SIZE", std::to_string(size)},
          {"MPI_LOCALNRANKS", std::to_string(local_size)},
          {"MPI_LOCALRANKID", std::to_string(rank % local_size)},
          {"PMI_FD", "7"}};
}

Variables slurm(int rank, int size, int nodes) {
  return {{"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_NTASKS", std::to_string(size)},
          {"SLURM_STEP_NUM_TASKS", std::to_string(size)},
          {"SLURM_STEP_NUM_NODES", std::to_string(nodes)},
          {"SLURM_JOB_ID", "55"},
          {"SLURM_STEP_ID", "0"}};
}

TEST(WhoAmI, AloneByDefault) {
  for (const LaunchSettings& s : {LaunchSettings{}, workers(1), by_hand(0, 1)}) {
    const RankIdentity me = who_am_i(s, {}, kParent);
    EXPECT_EQ(me.role, Role::kAlone);
    EXPECT_EQ(me.size, 1);
  }
}

TEST(WhoAmI, ALauncherOfWorkers) {
  const RankIdentity me = who_am_i(workers(4), {}, kParent);
  EXPECT_EQ(me.role, Role::kLauncher);
  EXPECT_EQ(me.size, 4);
  expect_error("--workers -1", workers(-1));
  expect_error("at most", workers(1000000));
}

TEST(WhoAmI, AChildOfTheLauncher) {
  Variables v;
  for (const std::string& text : rank_variables(2, 4, "127.0.0.1:4000", kSecret)) {
    const size_t equals = text.find('=');
    v[text.substr(0, equals)] = text.substr(equals + 1);
  }
  const RankIdentity me = who_am_i(workers(4), v, kParent);  // the same arguments as its parent
  EXPECT_EQ(me.role, Role::kRank);
  EXPECT_EQ(me.rank, 2);
  EXPECT_EQ(me.size, 4);
  EXPECT_EQ(me.rendezvous, "127.0.0.1:4000");
  EXPECT_EQ(me.token, kSecret);
  EXPECT_FALSE(me.hosts_rendezvous);
  expect_error("--workers 5", workers(5), v);
  v.erase("KINET_TOKEN");
  expect_error("KINET_TOKEN is not", workers(4), v);
}

TEST(WhoAmI, ARankByHand) {
  const RankIdentity me = who_am_i(by_hand(0, 2), {}, kParent);
  EXPECT_EQ(me.role, Role::kRank);
  EXPECT_EQ(me.rendezvous, "10.0.0.5:7000");
  EXPECT_EQ(me.token_file, "run.token");
  EXPECT_TRUE(me.hosts_rendezvous);
  EXPECT_FALSE(who_am_i(by_hand(1, 2), {}, kParent).hosts_rendezvous);
  EXPECT_EQ(who_am_i(by_hand(1, 2), open_mpi(0, 4, 4), kParent).rank, 1);  // flags win
}

TEST(WhoAmI, FlagsThatDoNotSuffice) {
  expect_error("rank 2 of 2 ranks", by_hand(2, 2));
  expect_error("--rank 1 needs --size", by_hand(1, 0));
  expect_error("--size 2 needs --rank", by_hand(-1, 2));
  LaunchSettings s = by_hand(0, 2);
  s.rendezvous.clear();
  expect_error("needs --rendezvous", s);
  s = by_hand(0, 2);
  s.token_file.clear();
  expect_error("needs --token-file", s);
  for (const char* bad : {"host", "host:", ":7000", "host:0", "host:65536", "host:x", "::1:70"}) {
    s = by_hand(0, 2);
    s.rendezvous = bad;
    expect_error("--rendezvous", s);
  }
  s = by_hand(0, 2);
  s.workers = 2;
  expect_error("exclude each other", s);
  expect_error("needs --rank and --size", place());
  s = place();
  s.workers = 2;
  expect_error("leave out --rendezvous", s);
}

struct JobCase {
  const char* engine;
  Variables variables;
  const char* name;  // part of the meeting folder
};

TEST(WhoAmI, JobsOfOneNode) {
  const JobCase cases[] = {{"Open MPI", open_mpi(1, 2, 2), "Open-MPI-331546625"},
                           {"PMI", hydra(1, 2, 2), "PMI-parent-4711"},
                           {"Slurm", slurm(1, 2, 1), "Slurm-55.0"}};
  for (const JobCase& c : cases) {
    const RankIdentity me = who_am_i({}, c.variables, kParent);
    EXPECT_EQ(me.role, Role::kRank) << c.engine;
    EXPECT_EQ(me.rank, 1) << c.engine;
    EXPECT_EQ(me.size, 2) << c.engine;
    EXPECT_EQ(me.source, c.engine);
    EXPECT_FALSE(me.hosts_rendezvous) << c.engine;
    EXPECT_NE(me.meeting_folder.find(c.name), std::string::npos) << me.meeting_folder;
    EXPECT_NE(me.meeting_folder.find(std::to_string(geteuid())), std::string::npos);
    expect_error("has started", workers(2), c.variables);
    EXPECT_EQ(who_am_i(workers(1), c.variables, kParent).role, Role::kAlone) << c.engine;
    const RankIdentity with_place = who_am_i(place(), c.variables, kParent);
    EXPECT_EQ(with_place.rendezvous, "10.0.0.5:7000") << c.engine;
    EXPECT_EQ(with_place.meeting_folder, "") << c.engine;
  }
}

TEST(WhoAmI, JobsOfSeveralNodesNeedAPlaceToMeet) {
  for (const Variables& v : {open_mpi(0, 4, 2), hydra(0, 4, 2), slurm(0, 4, 2)}) {
    expect_error("--rendezvous host:port", {}, v);
    const RankIdentity me = who_am_i(place(), v, kParent);
    EXPECT_TRUE(me.hosts_rendezvous);
    EXPECT_EQ(me.size, 4);
    EXPECT_EQ(me.token_file, "run.token");
  }
}

TEST(WhoAmI, JobsOfOneRankAreAlone) {
  for (const Variables& v : {open_mpi(0, 1, 1), hydra(0, 1, 1), slurm(0, 1, 1)}) {
    EXPECT_EQ(who_am_i({}, v, kParent).role, Role::kAlone);
    EXPECT_EQ(who_am_i(workers(4), v, kParent).role, Role::kLauncher);
  }
}

// mpirun within a Slurm job starts its helpers with srun: their variables are not the ranks'.
TEST(WhoAmI, MpiComesBeforeSlurm) {
  Variables v = slurm(0, 2, 2);
  v.merge(open_mpi(5, 8, 4));
  EXPECT_EQ(who_am_i(place(), v, kParent).rank, 5);
  v = slurm(0, 2, 2);
  v.merge(hydra(6, 8, 4));
  EXPECT_EQ(who_am_i(place(), v, kParent).rank, 6);
}

// In a batch script and in an interactive shell Slurm's variables count tasks that nobody started.
TEST(WhoAmI, ABatchScriptIsNoStep) {
  Variables v = slurm(0, 8, 1);
  v.erase("SLURM_STEP_ID");
  EXPECT_EQ(who_am_i({}, v, kParent).role, Role::kAlone);
  for (const char* special : {"4294967290", "4294967291"}) {
    v["SLURM_STEP_ID"] = special;
    EXPECT_EQ(who_am_i({}, v, kParent).role, Role::kAlone) << special;
    EXPECT_EQ(who_am_i(workers(2), v, kParent).role, Role::kLauncher) << special;
  }
}

TEST(WhoAmI, SrunWithPmi2KnowsItsNodes) {
  Variables v = slurm(1, 2, 1);
  v["PMI_RANK"] = "1";
  v["PMI_SIZE"] = "2";
  v["PMI_JOBID"] = "55.0";
  EXPECT_NE(who_am_i({}, v, kParent).meeting_folder.find("PMI-55.0"), std::string::npos);
}

TEST(WhoAmI, VariablesThatAreWrong) {
  expect_error("PMIx says rank 1", {}, {{"PMIX_RANK", "1"}});
  EXPECT_EQ(who_am_i(workers(1), {{"PMIX_RANK", "1"}}, kParent).role, Role::kAlone);
  expect_error("rank 4 of 2", {}, open_mpi(4, 2, 2));
  Variables v = open_mpi(0, 2, 2);
  v["OMPI_COMM_WORLD_RANK"] = "none";
  expect_error("OMPI_COMM_WORLD_RANK is 'none'", {}, v);
}

// Ranks of one job agree on the folder; jobs, also those with odd names, do not.
TEST(WhoAmI, TheMeetingFolderIsThatOfTheJob) {
  const auto folder = [](Variables v, int64_t parent) {
    v["XDG_RUNTIME_DIR"] = "/proc";  // a folder that exists
    return who_am_i({}, v, parent).meeting_folder;
  };
  EXPECT_EQ(folder(open_mpi(0, 2, 2), 1), folder(open_mpi(1, 2, 2), 2));
  EXPECT_NE(folder(hydra(0, 2, 2), 1), folder(hydra(1, 2, 2), 2));
  EXPECT_EQ(folder(open_mpi(0, 2, 2), 1).rfind("/proc/kinet-", 0), 0U);
  Variables v = open_mpi(0, 2, 2);
  v["PMIX_NAMESPACE"] = "../../prterun@host:1";
  v["XDG_RUNTIME_DIR"] = "/is/not/there";
  const std::string odd = who_am_i({}, v, 1).meeting_folder;
  EXPECT_EQ(odd.rfind("/tmp/kinet-", 0), 0U) << odd;
  EXPECT_EQ(odd.find('/', 5), std::string::npos) << odd;
}

// ---- meeting point and token file ---------------------------------------------------------------

TEST(Meeting, TheNoteIsReadUntilItsWriterEnds) {
  const TemporaryFolder folder;
  const std::string at = folder / "job";
  EXPECT_FALSE(read_meeting_note(at));
  {
    const MeetingPoint old(at, {{"127.0.0.1", 1}, "an old token of a run"});
    const MeetingPoint point(at, {{"127.0.0.1", 4000}, kSecret});  // writes over it
    const auto note = read_meeting_note(at);
    ASSERT_TRUE(note);
    EXPECT_EQ(note->address.text(), "127.0.0.1:4000");
    EXPECT_EQ(note->token, kSecret);
    struct stat status {};
    ASSERT_EQ(::stat(at.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
  }
  EXPECT_FALSE(std::filesystem::exists(at));
}

TEST(Meeting, AFolderThatOthersCanReadIsRefused) {
  const TemporaryFolder folder;
  const std::string at = folder / "job";
  ASSERT_EQ(::mkdir(at.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(at.c_str(), 0755), 0);
  EXPECT_THROW(read_meeting_note(at), Error);
  EXPECT_THROW(MeetingPoint(at, {{"127.0.0.1", 4000}, kSecret}), Error);
  const std::string link = folder / "link";
  ASSERT_EQ(::chmod(at.c_str(), 0700), 0);
  ASSERT_EQ(::symlink(at.c_str(), link.c_str()), 0);
  EXPECT_THROW(read_meeting_note(link), Error);
}

TEST(Meeting, HalfANoteIsNone) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkdir((folder / "job").c_str(), 0700), 0);
  folder.write("job/rendezvous", "127.0.0.1:4000\n0123456");
  EXPECT_FALSE(read_meeting_note(folder / "job"));
}

TEST(TokenFile, OnlyItsOwnerMayReadIt) {
  const TemporaryFolder folder;
  const std::string path = folder / "token";
  const auto error = [&]() -> std::string {
    try {
      return "read: " + read_token_file(path);
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_NE(error().find("No such file"), std::string::npos) << error();
  folder.write("token", std::string(kSecret) + "\r\nsecond line");
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_NE(error().find("chmod 600"), std::string::npos) << error();
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(error(), std::string("read: ") + kSecret);
  folder.write("token", "short");
  ::chmod(path.c_str(), 0600);
  EXPECT_NE(error().find("has 5 bytes"), std::string::npos) << error();
}

}  // namespace
}  // namespace kinet
