// The table of an experiment, as text and as files, and the curves of its page. ctest:
// labels=unit,core
#include "src/sim/experiment_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "src/sim/experiment_files.h"
#include "src/sim/experiment_report.h"
#include "tests/experiment_helpers.h"

namespace kinet {
namespace {

using Json = nlohmann::json;

const std::string kText = R"text(
name: "Tiny" about: "What is | shown."
solver: 'solver.prototxt' cluster: 'a.prototxt' workers: 4 max_iter: 10
seed: [11, 12, 13] tune_seed: [1, 2] rate: [0.1, 0.2]
target: 0.5 target_from: "bsp" margin: 0.01 candidate: "fast"
strategy { name: 'bsp' }
strategy { name: 'fast' about: "asynchronous" sync_param { model: 'asp' } }
strategy { name: 'wild' sync_param { model: 'asp' } rate: 0.4 }
published { text: "57.76 % (a paper)" }
)text";

// bsp: 0.3, 0.6, 0.8 at 2, 4, 6 seconds; fast: the same in half the time, and one seed slower.
VirtualResult result_of(const Cell& cell) {
  const bool slow = cell.strategy == 1 && cell.seed == 13;
  const double step = cell.strategy == 0 ? 2 : slow ? 1.25 : 1;
  const double top = cell.rate == 0.2 ? 0.8 : 0.78;
  VirtualResult run =
      scripted_run({0.3, 0.6, top + 0.001 * (static_cast<double>(cell.seed) - 12)}, step);
  run.bytes_up = 1.5e6, run.bytes_down = 0.5e6, run.server_seconds = 0.25;
  run.mean_k = cell.strategy == 0 ? 4 : 1, run.mean_lag = cell.strategy == 0 ? 0 : 3;
  run.max_lag = 2 * run.mean_lag, run.mean_gap = 0.0123 * run.mean_lag;
  if (cell.strategy > 0) run.mean_link = 1e6, run.p99_link = 1.5e6;
  run.compute_seconds = 3, run.waiting_seconds = 1;
  if (cell.strategy == 2) {
    run.diverged = cell.seed != 12;
    run.reason = "loss is not finite";
    run.tests.resize(2);
  }
  return run;
}

class ExperimentTableTest : public testing::Test {
 protected:
  ExperimentTableTest() : experiment_(files_.parse(kText)), runner_(experiment_, result_of) {
    GridObserver nobody;
    grid_ = run_grid(experiment_, runner_, {}, nobody);
    for (CellOutcome& outcome : grid_.outcomes) outcome.result.build = "kinet x";
    table_ = make_table(experiment_, grid_);
  }

  ExperimentFolder files_;
  Experiment experiment_;
  ScriptedRunner runner_;
  GridResult grid_;
  ExperimentTable table_;
};

// ln 2 twice and ln 1.6 once: mean 0.61877, deviation 0.12883; half width 4.3027 x 0.07438.
TEST_F(ExperimentTableTest, AsText) {
  EXPECT_EQ(table_markdown(experiment_, table_), R"(# Tiny

What is | shown.

* All times are modelled: virtual seconds of the cluster files. Gradients, weights and test scores are real.
* Figures are means ± standard deviations over 3 seeds (11, 12, 13); (3/5): three of five runs reached the target, and the mean is of those.
* Every strategy runs at its own best learning rate, chosen on other seeds (1, 2) by the final accuracy (rates tried: bsp 2, fast 2, wild 1); \*: the least or the largest of those tried.
* Speed-up − 1: ratio of times − 1, geometric mean over the seeds at which both reached the target (3/5: three of five), with a paired 95 % interval.

* fast: asynchronous

## a, 4 workers

Targets, test accuracy: 50 %; 79 % (bsp's final 0.8 - 0.01).

| strategy | base_lr | s to 50 % | samples to 50 % | speed-up − 1 over bsp | fast over it | s to 79 % | samples to 79 % | speed-up − 1 over bsp | fast over it | final accuracy |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| bsp | 0.2 \* | 4.000 (3/3) | 400.0 | – | +85.7 % [+34.8, +155.7] | 6.000 (3/3) | 600.0 | – | +85.7 % [+34.8, +155.7] | 80.00 ± 0.10 % |
| fast | 0.2 \* | 2.167 ± 0.289 (3/3) | 216.7 ± 28.9 | +85.7 % [+34.8, +155.7] | – | 3.250 ± 0.433 (3/3) | 325.0 ± 43.3 | +85.7 % [+34.8, +155.7] | – | 80.00 ± 0.10 % |
| wild (2 of 3 diverged) | 0.4 | 2.000 (1/3) | 200.0 | +100.0 % (1/3) | +0.0 % (1/3) | – (0/3) | – | – | – | 60.00 % |

| strategy | run, s | samples | moved | link a s | server s | waiting | k | lag | max. lag | gap |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| bsp | 6.000 | 600.0 | 2.0 MB | – | 0.2500 | 25.0 % | 4.000 | 0.000 | 0.000 | 0.000 |
| fast | 3.250 ± 0.433 | 325.0 ± 43.3 | 2.0 MB | 1.0 MB, 1.5 MB | 0.2500 | 25.0 % | 1.000 | 3.000 | 6.000 | 0.03690 |
| wild | 3.000 | 300.0 | 2.0 MB | 1.0 MB, 1.5 MB | 0.2500 | 25.0 % | 1.000 | 3.000 | 6.000 | 0.03690 |

## Runs that are in no mean

* figures: wild, a, 4 workers, base_lr 0.4, seed 11: diverged: loss is not finite
* figures: wild, a, 4 workers, base_lr 0.4, seed 13: diverged: loss is not finite

## Published figures

* 57.76 % (a paper) (not comparable: baselines unknown)

Made by kinet x.
)");
}

TEST_F(ExperimentTableTest, AsLinesOfASpreadsheet) {
  std::istringstream lines(table_csv(experiment_, table_));
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_EQ(all.size(), 1u + 3 * 2);
  EXPECT_EQ(all[2],
            "a,4,bsp,0.2,0.79,3,3,6,0,600,0,,,,0.856636,0.34814,1.55693,0.8,0.001,2000000,0.25,4,0,"
            "0,0,0");
  for (const std::string& line : all) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 25) << line;
  }
}

TEST_F(ExperimentTableTest, AsJson) {
  const Json json = Json::parse(results_json(experiment_, grid_, table_));
  EXPECT_EQ(json["seeds"], Json({11, 12, 13}));
  const Json& rows = json["settings"][0]["rows"];
  EXPECT_EQ(rows[1]["targets"][0]["seconds_by_seed"], Json({2, 2, 2.5}));
  EXPECT_EQ(rows[2]["targets"][0]["seconds_by_seed"], Json({nullptr, 2, nullptr}));
  EXPECT_EQ(rows[2]["diverged"], 2);
  EXPECT_EQ(json["tuning"].size(), 3u);
  EXPECT_EQ(json["tuning"][0]["rungs"][0][0]["base_lr"], 0.2);
  EXPECT_EQ(json["dropped"].size(), 2u);
}

TEST_F(ExperimentTableTest, AsAPageThatStandsAlone) {
  const std::string html =
      experiment_report(experiment_, grid_, table_, {{"experiment.prototxt", kText}});
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (size_t at = html.find(part); at != std::string::npos; at = html.find(part, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("<svg"), 2);
  EXPECT_EQ(count("fill-opacity"), 4);  // bands; of the one run of `wild` there is none
  EXPECT_EQ(count("http"), 0);
  EXPECT_EQ(count("<script"), 0);
  EXPECT_EQ(count("What is | shown."), 2);
  EXPECT_EQ(count("not comparable: baselines unknown"), 1);
  EXPECT_EQ(count("diverged: loss is not finite"), 2);
}

TEST(MeanCurve, GoesAsFarAsAllDo) {
  const MeanCurve c = mean_curve({{{0, 0}, {4, 4}}, {{1, 10}, {2, 12}, {9, 12}}}, 4);
  EXPECT_EQ(c.x, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(c.mean, (std::vector<double>{5.5, 7, 7.5, 8}));
  EXPECT_EQ(c.low, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(c.high, (std::vector<double>{10, 12, 12, 12}));
  EXPECT_TRUE(mean_curve({{{0, 0}, {1, 1}}, {{2, 0}, {3, 1}}}, 4).x.empty());
  EXPECT_TRUE(mean_curve({}, 4).x.empty());
}

TEST(FigureText, FourDigitsThatCount) {
  EXPECT_EQ(figure_text(0.0), "0.000");
  EXPECT_EQ(figure_text(12345.6), "12346");
  EXPECT_EQ(figure_text(99.999), "100.00");
  EXPECT_EQ(figure_text(0.012345), "0.01235");
  EXPECT_EQ(figure_text(-1.5), "-1.500");
  EXPECT_EQ(figure_text(1e9), "1.000e+09");
  EXPECT_EQ(figure_text(NAN), "–");
}

// A loss has to fall to its target, and that of a reference lies above its final loss.
TEST(ExperimentTable, LossesFall) {
  const ExperimentFolder files;
  const Experiment e = files.parse(
      "solver: 'solver.prototxt' cluster: 'a.prototxt' workers: 4 max_iter: 10 seed: [1, 2]"
      "measure: LOSS target_from: 'bsp' margin: 0.5 strategy { name: 'bsp' }");
  ScriptedRunner runner(e, [](const Cell&) { return scripted_run({0.2, 0.75, 0.8}); });
  GridObserver nobody;
  const ExperimentTable table = make_table(e, run_grid(e, runner, {}, nobody));
  const SettingTable& setting = table.settings[0];
  ASSERT_EQ(setting.targets.size(), 1u);
  EXPECT_NEAR(setting.targets[0].value, 0.3, 1e-12);  // 1 - 0.8, times 1.5
  EXPECT_EQ(setting.rows[0].targets[0].time.mean, 2);
}

}  // namespace
}  // namespace kinet
