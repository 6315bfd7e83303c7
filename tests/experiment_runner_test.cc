// Runs of an experiment on the virtual cluster: their length, and what they depend on. ctest:
// labels=unit,core
#include "src/sim/experiment_runner.h"

#include <gtest/gtest.h>

#include "src/sim/experiment_store.h"
#include "tests/experiment_helpers.h"

namespace kinet {
namespace {

TEST(CellLength, EndsWithATest) {
  const CellLength l = cell_length(1000, 1, 1, 7, 0);
  EXPECT_EQ(l.test_interval, 143);
  EXPECT_EQ(l.whole, 1001);
  EXPECT_EQ(l.end, 1001);
  EXPECT_EQ(cell_length(1000, 1, 0.25, 20, 0).end, 250);
  EXPECT_EQ(cell_length(1000, 1, 0.25, 20, 0).whole, 1000);
  EXPECT_EQ(cell_length(1000, 1, 0.01, 20, 0).end, 50);  // one test at least
  EXPECT_EQ(cell_length(1000, 1, 1, 0, 300).whole, 900);
  EXPECT_EQ(cell_length(3, 1, 1, 20, 0).test_interval, 1);
}

// Where a push is an iteration, N times as many are the same samples.
TEST(CellLength, CountsAsTheStrategyDoes) {
  const CellLength l = cell_length(1000, 16, 0.5, 20, 0);
  EXPECT_EQ(l.test_interval, 800);
  EXPECT_EQ(l.whole, 16000);
  EXPECT_EQ(l.end, 8000);
}

class VirtualRunnerTest : public testing::Test {
 protected:
  void SetUp() override {
    const TemporaryFolder& f = files_.folder();
    f.write("objective.prototxt", "objective { quadratic { dimension: 10 } }\n");
    f.write("a.prototxt", "compute { clock: EXPONENTIAL mean: 0.01 }\n");
    f.write("b.prototxt", "compute { clock: CONSTANT mean: 0.01 }\n");
  }
  Experiment experiment(const std::string& more = "") const {
    return files_.parse(
        "objective: 'objective.prototxt' cluster: 'a.prototxt' cluster: 'b.prototxt' workers: 3\n"
        "max_iter: 40 tests: 8 rate: 0.1 seed: 1 strategy { name: 'bsp' }\n"
        "strategy { name: 'asp' sync_param { model: 'asp' } }" +
        more);
  }

  ExperimentFolder files_;
  std::atomic<bool> never_{false};
};

TEST_F(VirtualRunnerTest, TheSameCellHasTheSameBits) {
  const Experiment e = experiment();
  VirtualRunner runner(e);
  const Cell cell{1, {0, 3}, 0.1, 1, 1};
  const std::string first = result_to_json("", runner.run(cell, never_));
  EXPECT_EQ(result_to_json("", runner.run(cell, never_)), first);
  Cell other = cell;
  other.seed = 2;
  EXPECT_NE(result_to_json("", runner.run(other, never_)), first);
}

TEST_F(VirtualRunnerTest, AShortenedRunIsTheBeginOfTheWholeOne) {
  const Experiment e = experiment(" set: ['lr_policy=poly', 'power=1']");
  VirtualRunner runner(e);
  for (const int strategy : {0, 1}) {
    const CellResult whole = runner.run({strategy, {0, 3}, 0.1, 1, 1}, never_);
    const CellResult part = runner.run({strategy, {0, 3}, 0.1, 1, 0.5}, never_);
    ASSERT_EQ(whole.run.tests.size(), 9u);
    ASSERT_EQ(part.run.tests.size(), 5u);
    for (size_t i = 0; i < part.run.tests.size(); ++i) {
      EXPECT_EQ(part.run.tests[i].loss, whole.run.tests[i].loss) << i;
      EXPECT_EQ(part.run.tests[i].seconds, whole.run.tests[i].seconds) << i;
    }
  }
}

TEST_F(VirtualRunnerTest, DependsOnAllThatMatters) {
  const Experiment e = experiment(), with_set = experiment(" set: 'momentum=0.5'");
  VirtualRunner runner(e), other(with_set);
  const Cell cell{0, {0, 3}, 0.1, 1, 1};
  const std::string base = runner.depends(cell);
  EXPECT_EQ(runner.depends(cell), base);
  EXPECT_NE(other.depends(cell), base);
  for (const Cell& changed :
       {Cell{1, {0, 3}, 0.1, 1, 1}, Cell{0, {1, 3}, 0.1, 1, 1}, Cell{0, {0, 3}, 0.2, 1, 1},
        Cell{0, {0, 3}, 0.1, 2, 1}, Cell{0, {0, 3}, 0.1, 1, 0.5}}) {
    EXPECT_NE(runner.depends(changed), base) << cell_label(e, changed);
  }
  files_.folder().write("objective.prototxt", "objective { quadratic { dimension: 11 } }\n");
  VirtualRunner later(e);
  EXPECT_NE(later.depends(cell), base);
}

TEST_F(VirtualRunnerTest, GivesUpWhenToldTo) {
  const Experiment e = experiment();
  VirtualRunner runner(e);
  const std::atomic<bool> now{true};
  EXPECT_LT(runner.run({0, {0, 3}, 0.1, 1, 1}, now).run.iteration, 40);
}

}  // namespace
}  // namespace kinet
