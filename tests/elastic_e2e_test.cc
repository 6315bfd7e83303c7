// `kinet train` through a server, when workers die, stop, come back or compute nonsense: what has
// to end ends with a name, what can go on goes on.
// ctest: labels=integration timeout=900 serial
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "comm/sockets.h"
#include "src/solver/round_lines.h"
#include "tests/cli_ranks.h"

namespace kinet {
namespace {

constexpr double kSeconds = 120;  // for what takes a few seconds on an idle machine

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#define EXPECT_LACKS(text, part) EXPECT_EQ((text).find(part), std::string::npos) << (text)

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
  return n;
}

// A gradient is used, or dropped, once at most.
void expect_each_gradient_once(const std::vector<RoundRecord>& rounds) {
  std::set<std::pair<int, int64_t>> seen;
  for (const RoundRecord& round : rounds) {
    for (const RoundRecord::Member& m : round.members) {
      EXPECT_TRUE(seen.emplace(m.worker, m.seq).second)
          << "gradient " << m.seq << " of worker " << m.worker << ", round " << round.round;
    }
  }
}

// Rank 0 is the server, ranks 1 to 3 are workers 0 to 2.
class Elastic : public CliRanksTest {
 protected:
  // Of that rank once it exists and is not `former`.
  int wait_for_process(int rank, int former = -1) const {
    for (double waited = 0; waited < kSeconds; waited += 0.005) {
      for (const int id : processes("KINET_RANK=" + std::to_string(rank))) {
        if (id != former) return id;
      }
      ::usleep(5000);
    }
    ADD_FAILURE() << "rank " << rank << " does not come";
    return -1;
  }

  std::unique_ptr<Process> start(std::vector<std::string> more,
                                 const std::string& sync = "momentum_k_sync") const {
    std::vector<std::string> all{kinet_program(), "train", "solver.prototxt", "--workers", "3",
                                 "--sync",        sync,    "--out",           "run",       "--set",
                                 "display=50",    "--set", "test_interval=0"};
    all.insert(all.end(), more.begin(), more.end());
    return std::make_unique<Process>(all, folder_.str());
  }

  std::unique_ptr<Process> under_way(std::vector<std::string> more, int iterations,
                                     const std::string& sync = "momentum_k_sync") const {
    more.insert(more.end(), {"--set", "max_iter=" + std::to_string(iterations)});
    auto run = start(more, sync);
    EXPECT_TRUE(run->wait_for("Iteration 50 ", kSeconds)) << run->out() << run->err();
    return run;
  }
  std::unique_ptr<Process> endless(std::vector<std::string> more = {},
                                   const std::string& sync = "momentum_k_sync") const {
    return under_way(std::move(more), 100000000, sync);
  }

  std::string metrics() const { return content(folder_ / "run/metrics.jsonl"); }
  std::vector<RoundRecord> rounds() const { return read_rounds(folder_ / "run/metrics.jsonl"); }

  // The run came to its end, with everything that belongs to one.
  void expect_whole(const ProcessResult& r, int64_t iterations) const {
    EXPECT_EQ(r.status, 0) << r.out << r.err;
    EXPECT_HAS(r.out, "Optimization Done.");
    EXPECT_TRUE(exists("run/solver_iter_" + std::to_string(iterations) + ".solverstate"));
    EXPECT_TRUE(exists("run/report.html"));
  }
};

constexpr int kIterations = 8000;

// ---- killed -------------------------------------------------------------------------------------

TEST_F(Elastic, TrainingGoesOnWithoutAKilledWorker) {
  const auto run = under_way({}, kIterations);
  const int process = process_of(2);
  ::kill(process, SIGKILL);
  const ProcessResult r = run->wait(kSeconds);
  expect_whole(r, kIterations);
  const std::string name = "process " + std::to_string(process) + ")";
  EXPECT_HAS(r.err, "rank 2 (" + name + " was killed by signal 9");
  EXPECT_HAS(r.out, name + " is lost");
  EXPECT_HAS(r.out, "training goes on with 2 of 3 workers");
  const std::string lines = metrics();
  EXPECT_HAS(lines, "training goes on with 2 of 3 workers");
  const std::vector<RoundRecord> all = rounds();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().live, 2);
  for (const RoundRecord& round : all) EXPECT_LE(round.k, round.live) << "round " << round.round;
}

TEST_F(Elastic, TwoDeathsLeaveOneWorkerThatGoesOn) {
  const auto run = under_way({}, kIterations, "k_sync");
  ::kill(process_of(1), SIGKILL);
  ASSERT_TRUE(run->wait_for("goes on with 2 of 3 workers", kSeconds)) << run->out() << run->err();
  ::kill(process_of(3), SIGKILL);
  const ProcessResult r = run->wait(kSeconds);
  expect_whole(r, kIterations);
  EXPECT_HAS(r.out, "training goes on with 1 of 3 workers");
}

// Before all have met there is nothing to be saved: all end, and say whom they miss.
TEST_F(Elastic, AWorkerKilledAtOnceIsNamed) {
  const auto run = start({"--set", "max_iter=100000000"});
  const int process = wait_for_process(2);
  ::kill(process, SIGKILL);
  if (run->wait_for("Iteration 50 ", 5)) run->send(SIGINT);  // it had met the others
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_FALSE(r.timed_out);
  EXPECT_NE(r.status, 0);
  EXPECT_HAS(r.err, "rank 2 (process " + std::to_string(process) + ") was killed by signal 9");
}

TEST_F(Elastic, WithoutWorkersTheRunEndsAndNamesTheLastOne) {
  const auto run = endless();
  std::vector<int> ids;
  for (const int rank : {1, 2, 3}) ids.push_back(process_of(rank));
  for (const size_t i : {size_t{0}, size_t{2}, size_t{1}}) {
    ::kill(ids[i], SIGKILL);
    const std::string left = "goes on with " + std::to_string(i == 0 ? 2 : 1) + " of 3";
    const bool told = i == 1 || run->wait_for(left, kSeconds);
    ASSERT_TRUE(told) << run->out() << run->err();
  }
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_NE(r.status, 0);
  EXPECT_HAS(r.err, "no worker is left; the last one was rank 2 (host");
  EXPECT_HAS(r.err, "process " + std::to_string(ids[1]) + ")");
}

TEST_F(Elastic, AKilledServerEndsTheRun) {
  for (const int rank : {0, 1}) {
    std::filesystem::remove_all(folder_ / "run");
    const auto run = endless({"--set", "sync_param.servers=2"});
    const int process = process_of(rank);
    ::kill(process, SIGKILL);
    const ProcessResult r = run->wait(30);
    EXPECT_FALSE(r.timed_out);
    EXPECT_EQ(r.status, 128 + SIGKILL) << r.err;
    EXPECT_HAS(r.err, "rank " + std::to_string(rank) + " (process " + std::to_string(process) +
                          ") was killed by signal 9");
    EXPECT_HAS(r.err, "a server is lost: rank " + std::to_string(rank) + " (host");
  }
}

// ---- replaced -----------------------------------------------------------------------------------

TEST_F(Elastic, ASuccessorTakesThePlaceOfAKilledWorker) {
  const auto run = under_way({"--restarts", "1"}, kIterations);
  const int process = process_of(2);
  ::kill(process, SIGKILL);
  const ProcessResult r = run->wait(kSeconds);
  expect_whole(r, kIterations);
  EXPECT_HAS(r.err, "takes its place");
  EXPECT_HAS(r.out, "goes on with 2 of 3 workers");
  EXPECT_HAS(r.out, "joins as worker 1");
  const std::string lines = metrics();
  EXPECT_HAS(lines, "joins as worker 1");
  const std::vector<RoundRecord> all = rounds();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().live, 3);
  expect_each_gradient_once(all);
  bool joined = false, used = false;
  for (const RoundRecord& round : all) {
    joined |= round.note.find("worker 1 joins") != std::string::npos;
    for (const RoundRecord::Member& m : round.members) used |= joined && m.worker == 1;
  }
  EXPECT_TRUE(used);
}

TEST_F(Elastic, AWorkerIsReplacedAgainAndAgain) {
  const auto run = endless({"--restarts", "3"}, "asp");
  int former = process_of(1);
  for (int i = 1; i <= 3; ++i) {
    ::kill(former, SIGKILL);
    former = wait_for_process(1, former);
    const Deadline deadline(kSeconds);
    while (count(run->out(), "joins as worker 0") < i && !deadline.passed()) ::usleep(5000);
    ASSERT_EQ(count(run->out(), "joins as worker 0"), i) << run->out() << run->err();
  }
  run->send(SIGINT);
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGINT) << r.out << r.err;
  EXPECT_HAS(r.out, "lost 3 times");
  expect_each_gradient_once(rounds());
}

// ---- stopped ------------------------------------------------------------------------------------

TEST_F(Elastic, RoundsGoOnWithoutAStoppedWorkerWhichIsThenLost) {
  for (const std::string sync : {"momentum_k_sync", "k_sync"}) {
    std::filesystem::remove_all(folder_ / "run");
    const auto run = endless({"--set", "comm_param.heartbeat_timeout=2"}, sync);
    const int process = process_of(3);
    ::kill(process, SIGSTOP);
    ASSERT_TRUE(run->wait_for("goes on with 2 of 3 workers", kSeconds)) << run->out() << run->err();
    ::kill(process, SIGCONT);
    ASSERT_TRUE(run->wait_for("rank 3 was declared lost", kSeconds)) << run->out() << run->err();
    run->send(SIGINT);
    const ProcessResult r = run->wait(kSeconds);
    EXPECT_EQ(r.status, 128 + SIGINT) << r.out << r.err;
    EXPECT_HAS(r.out, "process " + std::to_string(process) + ") is lost (no sign of life");
    EXPECT_EQ(count_files("run", ".solverstate"), 1);
    expect_each_gradient_once(rounds());
  }
}

TEST_F(Elastic, AStoppedWorkerDoesNotHoldUpTheEnd) {
  const auto run = under_way({"--set", "comm_param.heartbeat_timeout=1"}, kIterations);
  ::kill(process_of(2), SIGSTOP);  // for ever
  const ProcessResult r = run->wait(kSeconds);
  expect_whole(r, kIterations);
  EXPECT_HAS(r.err, "rank 2");
}

// bsp waits for all: until the stopped one is lost, nothing is applied.
TEST_F(Elastic, BspThroughAServerWaitsForAStoppedWorker) {
  const auto run =
      endless({"--set", "comm_param.heartbeat_timeout=4", "--set", "sync_param.servers=1"}, "bsp");
  ::kill(process_of(1), SIGSTOP);
  ASSERT_TRUE(run->wait_for("goes on with 2 of 3 workers", kSeconds)) << run->out() << run->err();
  run->send(SIGINT);
  EXPECT_EQ(run->wait(kSeconds).status, 128 + SIGINT);
  for (const RoundRecord& round : rounds()) EXPECT_EQ(round.k, round.live);
}

// ---- nonsense -----------------------------------------------------------------------------------

TEST_F(Elastic, WeightsThatAreNotFiniteEndTheRunWithoutASnapshot) {
  for (const std::string servers : {"1", "2"}) {
    std::filesystem::remove_all(folder_ / "run");
    const auto run = start({"--set", "max_iter=100000000", "--set", "base_lr=1e38", "--set",
                            "sync_param.servers=" + servers});
    const ProcessResult r = run->wait(kSeconds);
    EXPECT_EQ(r.status, 1) << r.out << r.err;
    EXPECT_HAS(r.err, "are not finite");
    EXPECT_HAS(r.err, "base_lr");
    EXPECT_EQ(count_files("run", ".solverstate"), 0);
    EXPECT_EQ(count_files("run", ".caffemodel"), 0);
  }
}

// ---- asked to -----------------------------------------------------------------------------------

TEST_F(Elastic, CtrlCToAnyProcessStopsAllWithOneSnapshot) {
  for (const int rank : {-1, 0, 2}) {  // -1: the launcher
    std::filesystem::remove_all(folder_ / "run");
    const auto run = endless();
    rank < 0 ? run->send(SIGINT) : static_cast<void>(::kill(process_of(rank), SIGINT));
    const ProcessResult r = run->wait(kSeconds);
    EXPECT_FALSE(r.timed_out);
    const bool right = rank >= 0 || r.status == 128 + SIGINT;
    EXPECT_TRUE(right) << r.status << r.err;
    EXPECT_HAS(r.out, "Optimization stopped early.");
    EXPECT_HAS(r.out, "Go on with: ");
    EXPECT_EQ(count_files("run", ".solverstate"), 1) << rank;
    EXPECT_LACKS(r.out + r.err, "lost");
  }
  std::string state;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run")) {
    if (entry.path().extension() == ".solverstate") state = entry.path().filename().string();
  }
  const int64_t at = std::atoll(state.c_str() + std::string("solver_iter_").size());
  const auto more =
      start({"--resume", "run/" + state, "--set", "max_iter=" + std::to_string(at + 100)});
  expect_whole(more->wait(kSeconds), at + 100);
}

TEST_F(Elastic, ASecondCtrlCEndsWithoutASnapshot) {
  const auto run = endless({"--set", "comm_param.heartbeat_timeout=0"});
  ::kill(process_of(2), SIGSTOP);  // the first one waits for it
  run->send(SIGINT);
  ASSERT_TRUE(run->wait_for("stopping after this iteration", kSeconds));
  ::usleep(500000);  // twice at once would be one
  run->send(SIGINT);
  const ProcessResult r = run->wait(30);
  EXPECT_FALSE(r.timed_out);
  EXPECT_NE(r.status, 0);
  EXPECT_EQ(count_files("run", ".solverstate"), 0);
}

TEST_F(Elastic, AHangupToAnyProcessMakesOneSnapshotAndTrainingGoesOn) {
  const auto run = endless();
  int snapshots = 0;
  for (const int rank : {-1, 0, 1, 3}) {
    rank < 0 ? run->send(SIGHUP) : static_cast<void>(::kill(process_of(rank), SIGHUP));
    ++snapshots;
    const Deadline deadline(kSeconds);
    const auto told = [&] { return count(run->out(), "Snapshotting solver state"); };
    while (told() < snapshots && !deadline.passed()) ::usleep(5000);
    EXPECT_EQ(told(), snapshots) << rank;  // two of one iteration are one file
  }
  run->send(SIGINT);
  const ProcessResult r = run->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGINT);
  EXPECT_EQ(count(r.out, "Snapshotting solver state"), snapshots + 1);
  EXPECT_HAS(r.out, "Optimization stopped early.");
}

// ---- told at the end ----------------------------------------------------------------------------

TEST_F(Elastic, TheSlowWorkerIsNamedAtTheEnd) {
  const ProcessResult r = start({"--set", "max_iter=2000", "--slow", "1:20"})->wait(kSeconds);
  expect_whole(r, 2000);
  for (const std::string worker : {"0", "1", "2"}) EXPECT_HAS(r.out, "Note: worker " + worker);
  EXPECT_HAS(r.out, "gradients applied");
  EXPECT_HAS(r.out, "worker 1 (rank 2 (host");
  EXPECT_HAS(r.out, "is slow: ");
  EXPECT_EQ(count(r.out, "is slow: "), 1) << r.out;
}

}  // namespace
}  // namespace kinet
