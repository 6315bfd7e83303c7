#include "src/sim/experiment_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace kinet {
namespace {

using State = CellOutcome::State;
using Outcomes = std::vector<const CellOutcome*>;

Outcomes outcomes_of(const GridResult& grid, const Setting& setting, int strategy) {
  Outcomes out;
  for (const CellOutcome& outcome : grid.outcomes) {
    const Cell& cell = outcome.cell;
    if (cell.strategy == strategy && cell.setting == setting) out.push_back(&outcome);
  }
  return out;
}

template <class Value>
Summary summarize_runs(const Outcomes& outcomes, const Value& value) {
  std::vector<double> values;
  for (const CellOutcome* outcome : outcomes) {
    if (!outcome->bad()) values.push_back(value(outcome->result.run));
  }
  return summarize(values);
}

void fill_costs(const Outcomes& outcomes, TableRow& row) {
  using Run = VirtualResult;
  const auto of = [&](const auto& value) { return summarize_runs(outcomes, value); };
  row.seconds = of([](const Run& r) { return r.seconds; });
  row.samples = of([](const Run& r) { return static_cast<double>(r.samples); });
  row.bytes = of([](const Run& r) { return r.bytes_up + r.bytes_down; });
  row.server_seconds = of([](const Run& r) { return r.server_seconds; });
  row.k = of([](const Run& r) { return r.mean_k; });
  row.lag = of([](const Run& r) { return r.mean_lag; });
  row.max_lag = of([](const Run& r) { return r.max_lag; });
  row.gap = of([](const Run& r) { return r.mean_gap; });
  row.mean_link = of([](const Run& r) { return r.mean_link; });
  row.p99_link = of([](const Run& r) { return r.p99_link; });
  row.waiting = of([](const Run& r) {
    const double all = r.compute_seconds + r.waiting_seconds;
    return all > 0 ? r.waiting_seconds / all : 0;
  });
}

TableRow make_row(const Experiment& experiment, const GridResult& grid, const Setting& setting,
                  int strategy) {
  TableRow row;
  row.strategy = strategy;
  const Tuning& tuning = grid.tuning(experiment, strategy, setting);
  row.rate = tuning.best;
  row.at_edge = tuning.at_edge;
  row.problem = tuning.problem;
  const Outcomes outcomes = outcomes_of(grid, setting, strategy);
  std::vector<double> finals;
  for (const CellOutcome* outcome : outcomes) {
    ++row.runs;
    row.failed += outcome->state == State::kFailed;
    row.not_run += outcome->state == State::kNotRun;
    row.diverged += outcome->state == State::kDone && outcome->result.run.diverged;
    row.finals.push_back(outcome->bad() ? std::nullopt
                                        : final_score(outcome->result.run, experiment));
    if (row.finals.back()) finals.push_back(*row.finals.back());
  }
  row.final = summarize(finals);
  fill_costs(outcomes, row);
  return row;
}

TargetFigure make_figure(const Experiment& experiment, const Outcomes& outcomes, double target) {
  TargetFigure out;
  out.target = target;
  std::vector<double> seconds, samples;
  for (const CellOutcome* outcome : outcomes) {
    const auto test = outcome->bad()
                          ? std::nullopt
                          : first_reaching(outcome->result.run, target, experiment.measure);
    out.seconds.emplace_back();
    out.samples.emplace_back();
    if (!test) continue;
    ++out.reached;
    out.seconds.back() = test->seconds;
    out.samples.back() = static_cast<double>(test->samples);
    seconds.push_back(test->seconds);
    samples.push_back(static_cast<double>(test->samples));
  }
  out.time = summarize(seconds);
  out.work = summarize(samples);
  return out;
}

std::vector<TableTarget> make_targets(const Experiment& experiment, const SettingTable& table) {
  std::vector<TableTarget> out;
  for (const double target : experiment.targets) out.push_back({target, ""});
  if (experiment.target_from < 0) return out;
  const auto index = static_cast<size_t>(experiment.target_from);
  const Summary& final = table.rows[index].final;
  if (final.count == 0) return out;
  const std::string how = experiment.higher_is_better()
                              ? fmt::format("{:.4g} - {:g}", final.mean, experiment.margin)
                              : fmt::format("{:.4g} x {:g}", final.mean, 1 + experiment.margin);
  out.push_back({derived_target(experiment, final.mean),
                 fmt::format("{}'s final {}", experiment.strategies[index].name, how)});
  return out;
}

void fill_targets(const Experiment& experiment, const GridResult& grid, SettingTable& table) {
  table.targets = make_targets(experiment, table);
  for (TableRow& row : table.rows) {
    const Outcomes outcomes = outcomes_of(grid, table.setting, row.strategy);
    for (const TableTarget& target : table.targets) {
      row.targets.push_back(make_figure(experiment, outcomes, target.value));
    }
  }
  for (TableRow& row : table.rows) {
    for (size_t t = 0; t < row.targets.size(); ++t) {
      TargetFigure& mine = row.targets[t];
      const auto times = [&](int strategy) {
        return table.rows[static_cast<size_t>(strategy)].targets[t].seconds;
      };
      if (row.strategy != experiment.baseline) {
        mine.over_baseline = speed_up(times(experiment.baseline), mine.seconds);
      }
      if (experiment.candidate >= 0 && row.strategy != experiment.candidate) {
        mine.candidate_over = speed_up(mine.seconds, times(experiment.candidate));
      }
    }
  }
}

void list_dropped(const Experiment& experiment, const GridResult& grid, ExperimentTable& out) {
  const auto list = [&](const std::vector<CellOutcome>& outcomes, const char* phase) {
    for (const CellOutcome& outcome : outcomes) {
      if (!outcome.bad()) continue;
      const std::string why = outcome.state == State::kFailed   ? "failed: " + outcome.why
                              : outcome.state == State::kNotRun ? "not run"
                              : outcome.result.run.reason.empty()
                                  ? "diverged"
                                  : "diverged: " + outcome.result.run.reason;
      out.dropped.push_back(fmt::format("{}: {}: {}", phase, cell_label(experiment, outcome.cell),
                                        why.substr(0, why.find('\n'))));
    }
  };
  list(grid.bad, "tuning");
  list(grid.outcomes, "figures");
  for (const Tuning& tuning : grid.tunings) {
    if (tuning.problem.empty()) continue;
    out.dropped.push_back(fmt::format(
        "all runs: {}, {}: {}", experiment.strategies[static_cast<size_t>(tuning.strategy)].name,
        setting_label(experiment, tuning.setting), tuning.problem));
  }
}

// Places after the point that show four digits that count; -1: too large or too small for that.
int decimals(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size >= 1e7 || size < 1e-4)) return -1;
  const int digits = size == 0 ? 0 : static_cast<int>(std::floor(std::log10(size)));
  return std::clamp(3 - digits, 0, 7);
}

}  // namespace

ExperimentTable make_table(const Experiment& experiment, const GridResult& grid) {
  ExperimentTable out;
  for (const Setting& setting : grid.settings) {
    SettingTable table;
    table.setting = setting;
    for (int s = 0; s < static_cast<int>(experiment.strategies.size()); ++s) {
      table.rows.push_back(make_row(experiment, grid, setting, s));
    }
    fill_targets(experiment, grid, table);
    out.settings.push_back(std::move(table));
  }
  list_dropped(experiment, grid, out);
  std::set<std::string> builds;
  for (const CellOutcome& outcome : grid.outcomes) {
    if (outcome.state == State::kDone) builds.insert(outcome.result.build);
  }
  out.builds.assign(builds.begin(), builds.end());
  return out;
}

std::string figure_text(double value) {
  if (!std::isfinite(value)) return "–";
  const int places = decimals(value);
  return places < 0 ? fmt::format("{:.3e}", value) : fmt::format("{:.{}f}", value, places);
}

std::string figure_text(const Summary& summary) {
  if (summary.count == 0) return "–";
  std::string out = figure_text(summary.mean);
  const int places = decimals(summary.mean);
  if (summary.count < 2 || summary.deviation == 0) return out;
  return out + (places < 0 ? fmt::format(" ± {:.1e}", summary.deviation)
                           : fmt::format(" ± {:.{}f}", summary.deviation, places));
}

std::string reached_text(const Summary& summary, int reached, int runs) {
  return fmt::format("{} ({}/{})", figure_text(summary), reached, runs);
}

std::string speed_up_text(const std::optional<SpeedUp>& gain, int seeds) {
  if (!gain) return "–";
  std::string out = fmt::format("{:+.1f} %", 100 * gain->gain);
  if (gain->has_interval)
    out += fmt::format(" [{:+.1f}, {:+.1f}]", 100 * gain->low, 100 * gain->high);
  if (gain->pairs < seeds) out += fmt::format(" ({}/{})", gain->pairs, seeds);
  return out;
}

std::string final_text(const TableRow& row, const Experiment& experiment) {
  if (row.final.count == 0) return "–";
  if (!experiment.higher_is_better()) return figure_text(row.final);
  std::string out = fmt::format("{:.2f}", 100 * row.final.mean);
  if (row.final.count > 1) out += fmt::format(" ± {:.2f}", 100 * row.final.deviation);
  return out + " %";
}

std::string target_text(double target, const Experiment& experiment) {
  return experiment.higher_is_better() ? fmt::format("{:.4g} %", 100 * target)
                                       : figure_text(target);
}

}  // namespace kinet
