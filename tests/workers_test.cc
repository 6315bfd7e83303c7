// The local launcher with shells for ranks: statuses, what is printed, replacement, stubborn ranks.
// ctest: labels=unit,core timeout=120
#include "comm/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "comm/child_process.h"
#include "src/base/check.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

class WorkersTest : public testing::Test {
 protected:
  WorkersTest() {
    options_.out = [this](const std::string& text) { out_ += text; };
    options_.err = [this](const std::string& text) { err_ += text; };
  }

  int run(int count, const std::string& script) {
    return run_workers("/bin/sh", {"sh", "-c", script}, count, options_);
  }

  WorkerOptions options_;
  std::string out_, err_;
};

TEST_F(WorkersTest, AllWellIs0) {
  EXPECT_EQ(run(3, "echo I am $KINET_RANK of $KINET_SIZE"), 0);
  EXPECT_EQ(out_, "I am 0 of 3\n");
  EXPECT_EQ(err_, "");
}

TEST_F(WorkersTest, TheStatusOfTheRankThatFails) {
  EXPECT_EQ(run(3, "[ $KINET_RANK != 1 ] || exit 7"), 7);
}

TEST_F(WorkersTest, TheSignalComesBeforeThoseThatFailBecauseOfIt) {
  const TemporaryFolder folder;
  const std::string flag = folder / "flag";
  EXPECT_EQ(run(2, "if [ $KINET_RANK = 0 ]; then : > " + flag + "; exit 1; fi; while [ ! -e " +
                       flag + " ]; do sleep 0.01; done; kill -SEGV $$"),
            128 + SIGSEGV);
  EXPECT_CONTAINS(err_, "kinet: rank 1 (process ");
  EXPECT_CONTAINS(err_, "was killed by signal 11 (Segmentation fault)\n");
}

TEST_F(WorkersTest, StubbornRanksAreKilledWithWhatTheyStarted) {
  options_.grace = options_.terminate = 0.2;
  EXPECT_EQ(run(3, "[ $KINET_RANK != 0 ] || exit 3; trap '' TERM; sleep 1000; sleep 1000"), 3);
  EXPECT_CONTAINS(err_, "was killed by signal 9 (Killed): it did not end by itself");
}

TEST_F(WorkersTest, RanksThatEndInTimeAreLeftAlone) {
  EXPECT_EQ(run(2, "[ $KINET_RANK != 0 ] || exit 3; sleep 0.2; echo still here >&2"), 3);
  EXPECT_EQ(err_, "[rank 1] still here\n");
}

TEST_F(WorkersTest, OneErrorOfAllIsPrintedOnce) {
  EXPECT_EQ(run(4, "echo wrong >&2; printf unfinished; exit 2"), 2);
  EXPECT_CONTAINS(err_, "[all 4 ranks] wrong\n");
  EXPECT_EQ(out_, "unfinished\n");
}

TEST_F(WorkersTest, VerboseShowsWhose) {
  options_.verbose = true;
  EXPECT_EQ(run(2, "[ $KINET_RANK = 0 ] || echo hello"), 0);
  EXPECT_EQ(out_, "[rank 1] hello\n");
}

TEST_F(WorkersTest, MuchOutputOfAllComesWhole) {
  options_.verbose = true;
  EXPECT_EQ(
      run(3, "i=0; while [ $i -lt 20000 ]; do echo a line of some length $i; i=$((i+1)); done"), 0);
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 60000);
  EXPECT_CONTAINS(out_, "\n[rank 2] a line of some length 19999\n");
}

TEST_F(WorkersTest, TheDeadAreReplacedSoOften) {
  const TemporaryFolder folder;
  const std::string file = folder / "starts";
  const std::string script =
      "echo x >> " + file + "; [ $(wc -l < " + file + ") -ge 3 ] || kill -9 $$";
  options_.restarts = 2;
  EXPECT_EQ(run(1, script), 0) << err_;
  EXPECT_CONTAINS(err_, "takes its place (1 more can be replaced)");
  EXPECT_CONTAINS(err_, "takes its place (0 more can be replaced)");
  options_.restarts = 1;
  std::filesystem::remove(file);
  EXPECT_EQ(run(1, script), 128 + SIGKILL);
}

TEST_F(WorkersTest, WrongInputIsNotReplaced) {
  options_.restarts = 5;
  EXPECT_EQ(run(2, "[ $KINET_RANK = 0 ] || exit 2"), 2);
  EXPECT_EQ(err_.find("takes its place"), std::string::npos) << err_;
}

TEST_F(WorkersTest, AProgramThatIsNotThereIsNamed) {
  const std::string text =
      message_of([&] { run_workers("/no/such/program", {"program"}, 2, options_); });
  EXPECT_CONTAINS(text, "/no/such/program cannot be started: No such file or directory");
}

TEST_F(WorkersTest, RanksHaveAGroupAndAnEmptyInput) {
  EXPECT_EQ(run(1, "cat; [ $(cut -d ' ' -f 5 /proc/$$/stat) = $$ ] && echo own group"), 0);
  EXPECT_EQ(out_, "own group\n");
}

TEST(ChildProcess, IsKilledWithItsObject) {
  pid_t id = -1;
  {
    const ChildProcess child({"/bin/sleep", {"sleep", "1000"}, {}});
    id = child.id();
    EXPECT_EQ(::kill(id, 0), 0);
  }
  EXPECT_EQ(::kill(id, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ChildProcess, VariablesReplaceThoseOfTheParent) {
  ChildProcess child(
      {"/bin/sh", {"sh", "-c", "[ \"$HOME\" = /nowhere ] && [ -n \"$PATH\" ]"}, {"HOME=/nowhere"}});
  for (const Deadline deadline(60); !child.poll_end() && !deadline.passed();) usleep(1000);
  ASSERT_TRUE(child.poll_end());
  EXPECT_EQ(child.exit_status(), 0);
  EXPECT_EQ(child.end_signal(), 0);
}

}  // namespace
}  // namespace kinet
