// Ranks that are started by hand, and by mpirun or something that sets the same variables.
// ctest: labels=integration timeout=300
#include <poll.h>
#include <sys/socket.h>

#include "tests/launch_processes.h"

namespace kinet {
namespace {

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

class ByHand : public RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
    address_ = free_address();
    token_ = token_file("token", kToken);
  }

  std::unique_ptr<Process> rank(int rank, int size, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"--rank",       std::to_string(rank),
                                 "--size",       std::to_string(size),
                                 "--rendezvous", address_,
                                 "--until",      stop_};
    all.insert(all.end(), more.begin(), more.end());
    if (std::find(more.begin(), more.end(), "--token-file") == more.end()) {
      all.insert(all.end(), {"--token-file", token_});
    }
    return start(all);
  }

  std::string address_, token_;
};

TEST_F(ByHand, TheyMeetInAnyOrder) {
  touch(stop_);
  const auto one = rank(1, 2);
  const auto zero = rank(0, 2);
  const ProcessResult a = zero->wait(kSeconds), b = one->wait(kSeconds);
  EXPECT_EQ(a.status, 0) << a.err;
  EXPECT_EQ(b.status, 0) << b.err;
  EXPECT_HAS(b.out, "rank 1 of 2");
}

TEST_F(ByHand, MissingRanksAreNamed) {
  const auto zero = rank(0, 4, {"--timeout", "1"});
  const auto two = rank(2, 4, {"--timeout", "20"});
  const ProcessResult a = zero->wait(kSeconds), b = two->wait(kSeconds);
  EXPECT_EQ(a.status, 1);
  EXPECT_HAS(a.err, "ranks that did not come within");
  EXPECT_HAS(a.err, ": 1, ");
  EXPECT_HAS(a.err, ", 3\n");
  EXPECT_EQ(b.status, 1);
}

TEST_F(ByHand, NoRank0IsSaidSo) {
  const ProcessResult r = rank(1, 2, {"--timeout", "0.5"})->wait(kSeconds);
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err, "no rendezvous at " + address_);
}

TEST_F(ByHand, ARankTwiceIsNamedByAll) {
  const auto zero = rank(0, 3);
  const auto one = rank(1, 3);
  const auto again = rank(1, 3);
  for (const auto* process : {&zero, &one, &again}) {
    const ProcessResult r = (*process)->wait(kSeconds);
    EXPECT_EQ(r.status, 2);
    EXPECT_HAS(r.err, "rank 1 is there twice");
  }
}

TEST_F(ByHand, ASecondRank0FindsThePortTaken) {
  const auto zero = rank(0, 2);
  std::string why;
  for (const Deadline deadline(kSeconds); !deadline.passed(); usleep(5000)) {
    if (connect_to(parse_host_port(address_, "test"), deadline, why)) break;
  }
  const ProcessResult r = rank(0, 2)->wait(kSeconds);
  EXPECT_EQ(r.status, 2);
  EXPECT_HAS(r.err, "was rank 0 started twice");
}

TEST_F(ByHand, SizesThatDiffer) {
  const auto zero = rank(0, 2);
  const auto one = rank(1, 3);
  const ProcessResult a = zero->wait(kSeconds), b = one->wait(kSeconds);
  EXPECT_EQ(a.status, 2);
  EXPECT_EQ(b.status, 2);
  EXPECT_HAS(a.err, "there are 3 ranks, the run has 2");
  EXPECT_EQ(a.err, b.err);
}

TEST_F(ByHand, SettingsThatDiffer) {
  const auto zero = rank(0, 2, {"--setting", "a"});
  const auto one = rank(1, 2, {"--setting", "b"});
  const ProcessResult a = zero->wait(kSeconds), b = one->wait(kSeconds);
  EXPECT_EQ(a.status, 2);
  EXPECT_EQ(b.status, 2);
  EXPECT_EQ(a.err, "ranks: the ranks differ: setting: rank 1 has b, rank 0 has a\n");
  EXPECT_EQ(a.err, b.err);
}

TEST_F(ByHand, AWrongTokenAndGarbageChangeNothing) {
  touch(stop_);
  const auto zero = rank(0, 2);
  const std::string other = token_file("other", "another token of 24 byte");
  const ProcessResult wrong = rank(1, 2, {"--token-file", other})->wait(kSeconds);
  EXPECT_EQ(wrong.status, 2);
  EXPECT_HAS(wrong.err, "same run token");
  std::string why;
  const FileDescriptor garbage =
      connect_to(parse_host_port(address_, "test"), Deadline(kSeconds), why);
  ASSERT_TRUE(garbage) << why;
  ::send(garbage.get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
  const auto one = rank(1, 2);
  EXPECT_EQ(one->wait(kSeconds).status, 0);
  const ProcessResult r = zero->wait(kSeconds);
  EXPECT_EQ(r.status, 0);
  EXPECT_HAS(r.err, "refused: wrong run token");
}

TEST_F(ByHand, ALostRankAndALostRank0AreNamed) {
  const auto zero = rank(0, 3);
  auto one = rank(1, 3, {"--go-on"});
  auto two = rank(2, 3);
  ASSERT_TRUE(one->wait_for("rank 1 of 3", kSeconds));
  ASSERT_TRUE(two->wait_for("rank 2 of 3", kSeconds));
  two.reset();  // SIGKILL
  ASSERT_TRUE(one->wait_for("rank 2 is lost", kSeconds));
  EXPECT_HAS(zero->wait(kSeconds).err, "rank 2 is lost");
  const ProcessResult r = one->wait(kSeconds);  // rank 0 took the rendezvous with it
  EXPECT_HAS(r.out, "rank 0 is lost");
  EXPECT_HAS(r.err, "the rendezvous is gone");
}

// ---- started by others --------------------------------------------------------------------------

TEST_F(RanksTest, Mpirun) {
  if (!std::filesystem::exists("/usr/bin/mpirun")) GTEST_SKIP() << "there is no /usr/bin/mpirun";
  touch(stop_);
  const std::vector<std::string> mpirun{"/usr/bin/mpirun", "--allow-run-as-root", "--oversubscribe",
                                        "-n", "2"};
  const ProcessResult r = start({"--until", stop_}, mpirun)->wait(kSeconds);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "started by Open MPI");
  EXPECT_HAS(r.out, "rank 0 of 2");
  EXPECT_HAS(r.out, "rank 1 of 2");
}

TEST_F(RanksTest, MpirunWithARankThatIsKilled) {
  if (!std::filesystem::exists("/usr/bin/mpirun")) GTEST_SKIP() << "there is no /usr/bin/mpirun";
  const std::vector<std::string> mpirun{"/usr/bin/mpirun", "--allow-run-as-root", "--oversubscribe",
                                        "-n", "2"};
  const auto job = start({"--until", stop_}, mpirun);
  wait_until_joined(*job, 2);
  ::kill(process_of(*job, 1), SIGKILL);
  const ProcessResult r = job->wait(kSeconds);
  EXPECT_NE(r.status, 0);
  EXPECT_FALSE(r.timed_out);
}

TEST_F(RanksTest, VariablesOfHydraAndSlurm) {
  touch(stop_);
  const std::vector<std::vector<std::string>> engines = {
      {"PMI_SIZE=2", "MPI_LOCALNRANKS=2", "PMI_RANK="},
      {"SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=1", "SLURM_JOB_ID=kinet-test",
       "SLURM_STEP_ID=0", "SLURM_PROCID="}};
  for (std::vector<std::string> variables : engines) {
    std::vector<std::unique_ptr<Process>> ranks;
    const std::string name = variables.back();
    for (const char* number : {"1", "0"}) {
      variables.back() = name + number;
      std::vector<std::string> before{"/usr/bin/env", "XDG_RUNTIME_DIR=" + folder_};
      before.insert(before.end(), variables.begin(), variables.end());
      ranks.push_back(start({"--until", stop_}, before));
    }
    for (const auto& process : ranks) {
      const ProcessResult r = process->wait(kSeconds);
      EXPECT_EQ(r.status, 0) << name << r.err;
      EXPECT_HAS(r.out, " of 2: process");
    }
  }
}

TEST_F(RanksTest, SeveralNodesNeedAPlaceToMeet) {
  const ProcessResult r =
      start({"--until", stop_}, {"/usr/bin/env", "SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_NUM_NODES=2",
                                 "SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_PROCID=1"})
          ->wait(kSeconds);
  EXPECT_EQ(r.status, 2);
  EXPECT_HAS(r.err, "across machines give --rendezvous");
}

}  // namespace
}  // namespace kinet
