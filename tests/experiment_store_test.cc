// Results on disk: an interrupted comparison goes on to the same table, and a change computes anew
// only what it changes. ctest: labels=unit,core
#include "src/sim/experiment_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/base/files.h"
#include "src/sim/experiment_files.h"
#include "tests/experiment_helpers.h"

namespace kinet {
namespace {

const std::string kText =
    "solver: 'solver.prototxt' cluster: 'a.prototxt' workers: 4 seed: [11, 12] max_iter: 10\n"
    "tune_seed: [1, 2] rate: [0.1, 0.2] target: 0.5\n"
    "strategy { name: 'bsp' } strategy { name: 'asp' sync_param { model: 'asp' } }\n";

VirtualResult result_of(const Cell& cell) {
  const double accuracy = 0.5 + cell.rate + 0.01 * static_cast<double>(cell.seed);
  VirtualResult run =
      scripted_run({accuracy / 3, accuracy / 2, accuracy}, 1.0 / (1 + cell.strategy));
  run.server_seconds = 0.1 * accuracy;
  return run;
}

struct Played {
  GridResult grid;
  std::string table;
  size_t ran = 0;
};

Played play(const Experiment& experiment, ScriptedRunner& runner, const BatchOptions& options) {
  GridObserver nobody;
  Played out;
  out.grid = run_grid(experiment, runner, options, nobody);
  out.ran = runner.ran.size();
  if (!out.grid.interrupted) {
    out.table = table_markdown(experiment, make_table(experiment, out.grid));
  }
  return out;
}

TEST(CellStore, WhatIsSavedIsFound) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells");
  CellResult result;
  result.run = scripted_run({0.1, 1.0 / 3});
  result.run.tests[0].loss = NAN;
  result.run.diverged = true, result.run.reason = "not \"finite\"";
  result.run.pushes = int64_t{1} << 40, result.run.mean_gap = 1e-300, result.run.bytes_up = 0.1;
  result.real_seconds = 2.5, result.build = "kinet 1";
  store.save("all it depends on", "label", result);
  const auto found = store.find("all it depends on");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(result_to_json("label", *found), result_to_json("label", result));
  EXPECT_EQ(found->run.tests[1].accuracy, 1.0 / 3);  // to the last bit
  EXPECT_TRUE(std::isnan(found->run.tests[0].loss));
  EXPECT_EQ(found->run.pushes, int64_t{1} << 40);
  EXPECT_EQ(found->run.reason, "not \"finite\"");
  EXPECT_FALSE(store.find("something else").has_value());
  EXPECT_NE(CellStore::key("a"), CellStore::key("b"));
  EXPECT_EQ(CellStore::key("a").size(), 32u);
}

TEST(CellStore, AFileThatIsNotWholeIsNoResult) {
  const TemporaryFolder folder;
  const CellStore store(folder / "cells");
  store.save("x", "label", {});
  const std::string path = folder / ("cells/" + CellStore::key("x") + ".json");
  const std::string text = read_file(path);
  ASSERT_TRUE(result_from_json(text).has_value());
  for (const size_t length : {size_t{0}, size_t{1}, text.size() / 2, text.size() - 2}) {
    write_file_atomic(path, text.substr(0, length));
    EXPECT_FALSE(store.find("x").has_value()) << length;
  }
  EXPECT_FALSE(result_from_json("{\"format\":1}").has_value());
  EXPECT_FALSE(result_from_json("[1]").has_value());
}

TEST(CellStore, AnInterruptedComparisonGoesOnToTheSameTable) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kText);
  ScriptedRunner whole(e, result_of);
  const Played expected = play(e, whole, {});
  EXPECT_EQ(expected.ran, 12u);

  const CellStore store(files.folder() / "cells");
  BatchOptions options;
  options.store = &store;
  size_t kept = 0;
  std::string table;
  for (const size_t stop_at : {3u, 4u, 100u}) {  // interrupted twice
    std::atomic<bool> stop{false};
    options.stop = &stop;
    ScriptedRunner runner(e, result_of);
    runner.before = [&](size_t count) { stop = count == stop_at; };
    const Played part = play(e, runner, options);
    EXPECT_EQ(part.grid.interrupted, stop_at < 100);
    EXPECT_EQ(static_cast<size_t>(part.grid.stored), kept);
    kept += static_cast<size_t>(part.grid.run);
    table = part.table;
  }
  EXPECT_EQ(kept, 12u);  // nothing was computed twice, but for what was under way
  EXPECT_EQ(table, expected.table);
}

TEST(CellStore, AChangedStrategyComputesItsOwnRunsAnew) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kText);
  const CellStore store(files.folder() / "cells");
  BatchOptions options;
  options.store = &store;
  ScriptedRunner first(e, result_of), same(e, result_of), changed(e, result_of);
  EXPECT_EQ(play(e, first, options).ran, 12u);
  EXPECT_EQ(play(e, same, options).ran, 0u);
  changed.versions[1] = "k: 3";
  EXPECT_EQ(play(e, changed, options).ran, 6u);
  for (const Cell& cell : changed.ran) EXPECT_EQ(cell.strategy, 1);
}

TEST(CellStore, ResultsOfAnotherBuildAreMadeAnewOnDemand) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kText);
  const CellStore store(files.folder() / "cells");
  ScriptedRunner runner(e, result_of), again(e, result_of), more(e, result_of);
  CellResult old;
  old.build = "another";
  const Cell cell{0, {0, 4}, 0.1, 1, 1};
  old.run = result_of(cell);
  store.save(runner.depends(cell), "", old);
  BatchOptions options;
  options.store = &store;
  EXPECT_EQ(play(e, runner, options).ran, 11u);
  options.rebuild = true;
  EXPECT_EQ(play(e, again, options).ran, 1u);
  EXPECT_EQ(play(e, more, options).ran, 0u);
}

// --only: the others come from the store, or not at all.
TEST(CellStore, UnwantedRunsAreOnlyLookedUp) {
  const ExperimentFolder files;
  const Experiment e = files.parse(kText);
  const CellStore store(files.folder() / "cells");
  BatchOptions options;
  options.store = &store;
  options.wanted = [](const Cell& cell) { return cell.strategy == 0; };
  ScriptedRunner runner(e, result_of), rest(e, result_of);
  const Played part = play(e, runner, options);
  EXPECT_EQ(part.ran, 6u);
  EXPECT_EQ(part.grid.tunings[1].problem, "not run");
  EXPECT_CONTAINS(part.table, "asp (not run)");
  options.wanted = [](const Cell& cell) { return cell.strategy == 1; };
  const Played all = play(e, rest, options);
  EXPECT_EQ(all.ran, 6u);
  EXPECT_EQ(all.grid.stored, 6);
  EXPECT_TRUE(all.grid.tunings[1].problem.empty());
}

}  // namespace
}  // namespace kinet
