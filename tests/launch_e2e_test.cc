// --workers N with real processes: they meet, print as one, and end together whatever happens to
// one. ctest: labels=integration timeout=300
#include "tests/launch_processes.h"

namespace kinet {
namespace {

class Workers : public RanksTest {
 protected:
  std::unique_ptr<Process> workers(int count, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"--workers", std::to_string(count), "--until", stop_, "--verbose"};
    all.insert(all.end(), more.begin(), more.end());
    return start(all);
  }
};

TEST_F(Workers, MeetAndEnd) {
  const auto launcher = workers(4);
  wait_until_joined(*launcher, 4);
  EXPECT_EQ(processes().size(), 5U);
  touch(stop_);
  const ProcessResult r = launcher->wait(kSeconds);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "[rank 3] rank 3 of 4");
  EXPECT_HAS(r.out, "local rank 3 of 4");
  EXPECT_EQ(r.err, "");
}

TEST_F(Workers, OnlyRank0IsSeenByDefault) {
  touch(stop_);
  const ProcessResult r = start({"--workers", "3", "--until", stop_})->wait(kSeconds);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.out, "rank 0 of 3");
  EXPECT_EQ(r.out.find("rank 1"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find('['), std::string::npos) << r.out;
}

TEST_F(Workers, RanksThatDifferSayTheSameAndEndWith2) {
  const ProcessResult r = workers(4, {"--setting-of", "2", "other"})->wait(kSeconds);
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.err,
            "[all 4 ranks] ranks: the ranks differ: setting: rank 2 has other, rank 0 has plain\n");
}

TEST_F(Workers, KilledBeforeTheyMeet) {
  const auto launcher = workers(3, {"--wait-for", go_});
  const int process = process_of(*launcher, 2);
  process_of(*launcher, 0), process_of(*launcher, 1);
  ::kill(process, SIGKILL);
  const ProcessResult r = launcher->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGKILL);
  EXPECT_HAS(r.err, "kinet: rank 2 (process " + std::to_string(process) +
                        ") was killed by signal 9 (Killed)\n");
  EXPECT_HAS(r.err, "killed by signal 15 (Terminated): it did not end by itself");  // they waited
}

TEST_F(Workers, KilledWhileTheOthersWaitForIt) {
  const auto launcher = workers(3, {"--wait-for", go_});
  const int process = process_of(*launcher, 2);
  ::kill(process, SIGSTOP);
  touch(go_);
  usleep(100000);  // most likely ranks 0 and 1 wait in join by then; either way they must be told
  ::kill(process, SIGKILL);
  const ProcessResult r = launcher->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGKILL);
  const std::string name = "rank 2 (process " + std::to_string(process) + ")";
  EXPECT_HAS(r.err, "kinet: " + name + " was killed by signal 9");
  EXPECT_HAS(r.err, "[ranks 0-1] ranks: " + name + " is gone before all ranks were there");
}

TEST_F(Workers, KilledWhileTheyRun) {
  const auto launcher = workers(4);
  wait_until_joined(*launcher, 4);
  const int process = process_of(*launcher, 2);
  ::kill(process, SIGKILL);
  const ProcessResult r = launcher->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGKILL);
  EXPECT_HAS(r.err,
             "kinet: rank 2 (process " + std::to_string(process) + ") was killed by signal 9");
  EXPECT_HAS(r.err, "[ranks 0-1, 3] ranks: rank 2 is lost");
  EXPECT_EQ(r.err.find("did not end by itself"), std::string::npos) << r.err;
}

TEST_F(Workers, AStoppedRankIsEndedToo) {
  const auto launcher = workers(3);
  wait_until_joined(*launcher, 3);
  ::kill(process_of(*launcher, 1), SIGSTOP);
  ::kill(process_of(*launcher, 2), SIGKILL);
  const ProcessResult r = launcher->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGKILL);
  EXPECT_HAS(r.err, "rank 2 is lost");
  EXPECT_HAS(r.err, "did not end by itself");
}

TEST_F(Workers, ADeadRankIsReplacedWhenAsked) {
  const auto launcher = workers(3, {"--restart", "1"});
  wait_until_joined(*launcher, 3);
  ::kill(process_of(*launcher, 1), SIGKILL);
  ASSERT_TRUE(launcher->wait_for("rank 0: rank 1 is lost", kSeconds));
  ASSERT_TRUE(launcher->wait_for("rank 0: rank 1 is back: process", kSeconds)) << launcher->err();
  ASSERT_TRUE(launcher->wait_for("rank 2: rank 1 is back: process", kSeconds));
  ASSERT_TRUE(launcher->wait_for("incarnation 1, local rank 1 of 3", kSeconds)) << launcher->out();
  touch(stop_);
  const ProcessResult r = launcher->wait(kSeconds);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_HAS(r.err, "takes its place (0 more can be replaced)");
}

TEST_F(Workers, ARankReplacedBeforeTheyMeet) {
  const auto launcher = workers(3, {"--wait-for", go_, "--restart", "2"});
  ::kill(process_of(*launcher, 1), SIGKILL);
  ASSERT_TRUE(launcher->wait_for("takes its place", kSeconds));
  touch(go_);
  wait_until_joined(*launcher, 3);
  touch(stop_);
  EXPECT_EQ(launcher->wait(kSeconds).status, 0);
}

TEST_F(Workers, TheOthersGoOnWhenAsked) {
  const auto launcher = workers(3, {"--go-on"});
  wait_until_joined(*launcher, 3);
  ::kill(process_of(*launcher, 1), SIGKILL);
  ASSERT_TRUE(launcher->wait_for("rank 0: rank 1 is lost", kSeconds));
  ASSERT_TRUE(launcher->wait_for("rank 2: rank 1 is lost", kSeconds));
  touch(stop_);
  const ProcessResult r = launcher->wait(kSeconds);
  EXPECT_EQ(r.status, 0);  // it was not vital, but is told
  EXPECT_EQ(count(r.err, "killed"), 1) << r.err;
}

TEST_F(Workers, SignalsArePassedOn) {
  const auto launcher = workers(3);
  wait_until_joined(*launcher, 3);
  launcher->send(SIGTERM);
  const ProcessResult r = launcher->wait(kSeconds);
  EXPECT_EQ(r.status, 128 + SIGTERM);
  EXPECT_EQ(r.err.find("did not end by itself"), std::string::npos) << r.err;
}

TEST_F(Workers, NoneOutlivesItsLauncher) {
  const auto launcher = workers(3);
  wait_until_joined(*launcher, 3);
  launcher->send(SIGKILL);
  EXPECT_EQ(launcher->wait(kSeconds).status, -1);
}  // TearDown looks for processes

}  // namespace
}  // namespace kinet
