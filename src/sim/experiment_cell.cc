#include "src/sim/experiment_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace kinet {

std::string cluster_name(const Experiment& experiment, int cluster) {
  return stem_of(cluster < 0 ? experiment.tune_cluster
                             : experiment.clusters[static_cast<size_t>(cluster)]);
}

std::string setting_label(const Experiment& experiment, const Setting& setting) {
  return fmt::format("{}, {} worker{}", cluster_name(experiment, setting.cluster), setting.workers,
                     setting.workers == 1 ? "" : "s");
}

std::string cell_label(const Experiment& experiment, const Cell& cell) {
  std::string out = fmt::format("{}, {}, base_lr {}, seed {}",
                                experiment.strategies[static_cast<size_t>(cell.strategy)].name,
                                setting_label(experiment, cell.setting), cell.rate, cell.seed);
  if (cell.part < 1) out += fmt::format(", {:.3g} % of the run", 100 * cell.part);
  return out;
}

double score_of(const VirtualTest& test, Measure measure) {
  return measure == Measure::kAccuracy ? test.accuracy : test.loss;
}

std::optional<double> final_score(const VirtualResult& run, const Experiment& experiment) {
  if (run.diverged || run.tests.empty()) return std::nullopt;
  const size_t count = std::min(run.tests.size(), static_cast<size_t>(experiment.final_tests));
  double sum = 0;
  for (size_t i = run.tests.size() - count; i < run.tests.size(); ++i) {
    sum += score_of(run.tests[i], experiment.measure);
  }
  const double mean = sum / static_cast<double>(count);
  if (!std::isfinite(mean)) return std::nullopt;
  KINET_CHECK(experiment.measure == Measure::kLoss || mean >= 0,
              "{}: what is trained has no output 'accuracy' in its tests\nhint: measure: LOSS, or "
              "an Accuracy layer in the test net",
              experiment.path);
  return mean;
}

std::optional<VirtualTest> first_reaching(const VirtualResult& run, double target,
                                          Measure measure) {
  for (const VirtualTest& test : run.tests) {
    const double score = score_of(test, measure);
    if (measure == Measure::kAccuracy ? score >= target : score <= target) return test;
  }
  return std::nullopt;
}

double derived_target(const Experiment& experiment, double final_figure) {
  return experiment.higher_is_better() ? final_figure - experiment.margin
                                       : final_figure * (1 + experiment.margin);
}

}  // namespace kinet
