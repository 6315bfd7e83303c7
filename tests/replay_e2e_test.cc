// `kinet train --replay` and `kinet simulate --replay`: the weights of a run with servers, out of
// its run folder.
// ctest: labels=integration timeout=300
#include "tests/cli_fixture.h"

namespace kinet {
namespace {

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class Replayed : public CliTest {
 protected:
  using Words = std::vector<std::string>;

  ProcessResult run(const std::string& command, const std::string& out, const Words& more) const {
    Words all{command,     "solver.prototxt",
              "--workers", "3",
              "--sync",    "asp",
              "--threads", "1",
              "--out",     out,
              "--set",     "max_iter=20",
              "--set",     "random_seed=-1",
              "--set",     "test_interval=5",
              "--set",     "display=5"};
    all.insert(all.end(), more.begin(), more.end());
    return kinet(all);
  }
  std::string model(const std::string& out) const {
    return read_file(folder_ / (out + "/solver_iter_20.caffemodel"));
  }
};

// The seed is the clock's: the log tells it.
TEST_F(Replayed, TheWeightsOfARunFolder) {
  const ProcessResult first = run("train", "a", {"--slow", "1:4"});
  ASSERT_EQ(first.status, 0) << first.out << first.err;
  for (const std::string command : {"train", "simulate"}) {
    const ProcessResult again = run(command, command, {"--replay", "a"});
    ASSERT_EQ(again.status, 0) << again.out << again.err;
    EXPECT_EQ(model(command), model("a"));
  }
  const ProcessResult log = run("simulate", "c", {"--replay", "train/metrics.jsonl"});
  ASSERT_EQ(log.status, 0) << log.out << log.err;
  EXPECT_EQ(model("c"), model("a"));
}

TEST_F(Replayed, WhatCannotBeReplayedIsSaid) {
  const ProcessResult none = run("simulate", "x", {"--replay", "nowhere"});
  EXPECT_NE(none.status, 0);
  EXPECT_HAS(none.err, "--replay nowhere: there is no nowhere");
  ASSERT_EQ(run("simulate", "a", {}).status, 0);
  const ProcessResult bsp =
      run("simulate", "y", {"--replay", "a", "--set", "sync_param.servers=0"});
  EXPECT_NE(bsp.status, 0);
  const ProcessResult seed = run("simulate", "z", {"--replay", "a", "--seed", "12345"});
  EXPECT_NE(seed.status, 0);
  EXPECT_HAS(seed.err, "its loss is");
}

}  // namespace
}  // namespace kinet
