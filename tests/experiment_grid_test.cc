// The grid of runs, played with scripted results: halving, the choice of rates, what is done about
// runs that diverge or fail. ctest: labels=unit,core
#include "src/sim/experiment_grid.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/experiment_helpers.h"

namespace kinet {
namespace {

const std::string kHead =
    "solver: 'solver.prototxt' cluster: 'a.prototxt' workers: 4 seed: [11, 12] max_iter: 10\n"
    "tune_seed: [1, 2, 3]\n";
const std::string kTwo =
    "strategy { name: 'bsp' } strategy { name: 'asp' sync_param { model: 'asp' } }\n";
const std::string kRates = "rate: [0.1, 0.2, 0.4, 0.8]\n";

GridResult play(const Experiment& experiment, ScriptedRunner& runner, int jobs = 1) {
  BatchOptions options;
  options.jobs = jobs;
  GridObserver nobody;
  return run_grid(experiment, runner, options, nobody);
}

// Final accuracy by rate; bsp is best at 0.2, asp at 0.4.
VirtualResult by_rate(const Cell& cell) {
  const double best = cell.strategy == 0 ? 0.2 : 0.4;
  const double accuracy = 0.9 - std::abs(std::log2(cell.rate / best)) / 10;
  return scripted_run({accuracy / 2, accuracy + 1e-3 * static_cast<double>(cell.seed % 2)});
}

size_t count(const std::vector<Cell>& cells, double part, int strategy) {
  return static_cast<size_t>(std::count_if(cells.begin(), cells.end(), [&](const Cell& cell) {
    return cell.part == part && cell.strategy == strategy;
  }));
}

TEST(ExperimentGrid, HalvingGivesUpTheWorstHalfEachTime) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kTwo + kRates + "halving { rungs: 3 keep: 0.5 }");
  ScriptedRunner runner(e, by_rate);
  const GridResult r = play(e, runner);
  // 4 rates x 3 seeds at a quarter of the length, 2 x 3 at a half; then one is left.
  EXPECT_EQ(count(runner.ran, 0.25, 0), 12u);
  EXPECT_EQ(count(runner.ran, 0.5, 0), 6u);
  EXPECT_EQ(count(runner.ran, 1, 0), 2u);  // the figures
  EXPECT_EQ(runner.ran.size(), 40u);
  EXPECT_EQ(r.run, 40);
  ASSERT_EQ(r.tunings.size(), 2u);
  EXPECT_EQ(r.tunings[0].best, 0.2);
  EXPECT_EQ(r.tunings[1].best, 0.4);
  EXPECT_EQ(r.tunings[0].runs, 18);
  EXPECT_FALSE(r.tunings[0].at_edge);
  for (const CellOutcome& outcome : r.outcomes) {
    EXPECT_EQ(outcome.cell.rate, outcome.cell.strategy == 0 ? 0.2 : 0.4);
    EXPECT_GE(outcome.cell.seed, 11u);
  }
  EXPECT_EQ(r.outcomes.size(), 4u);
}

TEST(ExperimentGrid, WithoutHalvingEveryRateRunsTheWholeLength) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kTwo + kRates);
  ScriptedRunner runner(e, by_rate);
  const GridResult r = play(e, runner);
  EXPECT_EQ(count(runner.ran, 1, 0), 12u + 2u);
  EXPECT_EQ(r.tunings[1].best, 0.4);
  EXPECT_EQ(r.tunings[1].rungs[0][0].final.count, 3);
}

TEST(ExperimentGrid, OneRateNeedsNoTuning) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kTwo);
  ScriptedRunner runner(e, by_rate);
  play(e, runner);
  EXPECT_EQ(runner.ran.size(), 4u);
}

TEST(ExperimentGrid, ThePlanIsWhatIsRun) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kTwo + kRates + "halving { rungs: 2 }");
  const std::vector<GridPhase> plan = plan_grid(e);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].name, "tuning, rung 1 of 2");
  EXPECT_EQ(plan[0].cells.size(), 24u);
  EXPECT_EQ(plan[1].cells.size(), 12u);
  EXPECT_EQ(plan[2].cells.size(), 4u);
  ScriptedRunner runner(e, by_rate);
  play(e, runner);
  EXPECT_EQ(runner.ran.size(), 40u);
  EXPECT_TRUE(std::equal(plan[0].cells.begin(), plan[0].cells.end(), runner.ran.begin()));
}

TEST(ExperimentGrid, RatesAreChosenInEverySettingOrOnOneCluster) {
  const ExperimentFolder files;
  const std::string more = "cluster: 'b.prototxt' workers: 8 ";
  // On b, twice the rate is best.
  const auto script = [](const Cell& cell) {
    Cell moved = cell;
    if (cell.setting.cluster == 1) moved.rate /= 2;
    return by_rate(moved);
  };
  const Experiment each = files.parse(kHead + kTwo + kRates + more);
  ScriptedRunner runner(each, script);
  const GridResult r = play(each, runner);
  EXPECT_EQ(r.tunings.size(), 8u);
  EXPECT_EQ(r.tuning(each, 0, {0, 8}).best, 0.2);
  EXPECT_EQ(r.tuning(each, 0, {1, 4}).best, 0.4);
  const Experiment one = files.parse(kHead + kTwo + kRates + more + "tune_cluster: 'a.prototxt'");
  ScriptedRunner other(one, script);
  const GridResult s = play(one, other);
  EXPECT_EQ(s.tunings.size(), 4u);
  EXPECT_EQ(s.tuning(one, 0, {1, 4}).best, 0.2);
}

TEST(ExperimentGrid, ARateThatDivergesOnceIsBehindAllThatDoNot) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kTwo + kRates);
  ScriptedRunner runner(e, [](const Cell& cell) {
    VirtualResult run = by_rate(cell);
    run.diverged = cell.strategy == 1 && cell.rate == 0.4 && cell.seed == 2;
    return run;
  });
  const GridResult r = play(e, runner);
  EXPECT_NE(r.tunings[1].best, 0.4);
  EXPECT_EQ(r.bad.size(), 1u);
  EXPECT_EQ(r.bad[0].cell.seed, 2u);
}

TEST(ExperimentGrid, WhatDivergesAtEveryRateHasNoFigures) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kTwo + kRates + "halving { rungs: 3 }");
  ScriptedRunner runner(e, [](const Cell& cell) {
    VirtualResult run = by_rate(cell);
    run.diverged = cell.strategy == 1;
    return run;
  });
  const GridResult r = play(e, runner);
  EXPECT_EQ(count(runner.ran, 0.25, 1), 12u);
  EXPECT_EQ(count(runner.ran, 0.5, 1) + count(runner.ran, 1, 1), 0u);
  EXPECT_CONTAINS(r.tunings[1].problem, "diverged");
  EXPECT_EQ(r.outcomes.size(), 2u);
}

// The rate that is there first wins, though another one ends higher. The target is bsp's.
TEST(ExperimentGrid, TuningByTimeToTheReferencesTarget) {
  const ExperimentFolder files;
  const Experiment e =
      files.parse(kHead +
                  "tune_by: TIME target_from: 'bsp' margin: 0.05\n"
                  "strategy { name: 'asp' sync_param { model: 'asp' } rate: [0.1, 0.2, 0.4] }"
                  "strategy { name: 'bsp' rate: 0.1 }");
  ScriptedRunner runner(e, [](const Cell& cell) {
    if (cell.strategy == 1) return scripted_run({0.5, 0.7, 0.8});
    if (cell.rate == 0.1) return scripted_run({0.5, 0.7, 0.9});
    if (cell.rate == 0.2) return scripted_run({0.6, 0.76, 0.8});
    return scripted_run({0.7, 0.74, 0.74});  // never there
  });
  const GridResult r = play(e, runner);
  EXPECT_EQ(r.tunings[0].best, 0.2);
  const std::vector<RateScore>& rung = r.tunings[0].rungs[0];
  EXPECT_EQ(rung[0].reached, 3);
  EXPECT_EQ(rung[0].seconds.mean, 2);
  EXPECT_EQ(rung[1].rate, 0.1);
  EXPECT_EQ(rung[2].reached, 0);
  EXPECT_EQ(r.tunings[1].runs, 3);  // the reference ran for its target
}

TEST(ExperimentGrid, AFailedRunIsKeptApartAndOthersGoOn) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kTwo);
  ScriptedRunner runner(e, [](const Cell& cell) {
    if (cell.strategy == 1 && cell.seed == 12) fail("no room for it");
    return by_rate(cell);
  });
  const GridResult r = play(e, runner);
  ASSERT_EQ(r.outcomes.size(), 4u);
  EXPECT_EQ(r.outcomes[3].state, CellOutcome::State::kFailed);
  EXPECT_EQ(r.outcomes[3].why, "no room for it");
  EXPECT_EQ(r.outcomes[2].state, CellOutcome::State::kDone);
  ScriptedRunner none(e, [](const Cell&) -> VirtualResult { fail("never"); });
  EXPECT_CONTAINS(message_of([&] { play(e, none); }),
                  "every run of a batch failed; the first:\nnever");
}

TEST(ExperimentGrid, ThreadsChangeNothing) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kTwo + kRates + "halving { rungs: 2 }");
  ScriptedRunner one(e, by_rate), many(e, by_rate);
  const GridResult a = play(e, one), b = play(e, many, 7);
  ASSERT_EQ(a.outcomes.size(), b.outcomes.size());
  for (size_t i = 0; i < a.outcomes.size(); ++i) {
    EXPECT_EQ(a.outcomes[i].cell, b.outcomes[i].cell);
    EXPECT_EQ(final_score(a.outcomes[i].result.run, e), final_score(b.outcomes[i].result.run, e));
  }
  EXPECT_EQ(one.ran.size(), many.ran.size());
}

TEST(ExperimentGrid, ProgressEndsAtTheWhole) {
  struct Watch : GridObserver {
    GridProgress last;
    int calls = 0;
    void on_cell(const CellOutcome&, const GridProgress& progress) override {
      last = progress, ++calls;
    }
  } watch;
  const ExperimentFolder files;
  const Experiment e = files.parse(kHead + kTwo + kRates + "halving { rungs: 3 }");
  ScriptedRunner runner(e, by_rate);
  run_grid(e, runner, {}, watch);
  EXPECT_EQ(watch.calls, 40);
  EXPECT_EQ(watch.last.done, 40);
  EXPECT_EQ(watch.last.cells, 40);
  EXPECT_NEAR(watch.last.seconds_left, 0, 1e-9);
}

}  // namespace
}  // namespace kinet
