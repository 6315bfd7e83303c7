#include "src/sim/experiment_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/text.h"
#include "src/sim/experiment_files.h"
#include "src/solver/chart.h"
#include "src/solver/html_page.h"

namespace kinet {
namespace {

constexpr int kPoints = 120;  // of a curve: more than a run has tests, mostly

// The value of a curve at x, which lies within it.
double value_at(const CurvePoints& curve, double x) {
  const auto above = std::lower_bound(curve.begin(), curve.end(), x,
                                      [](const auto& p, double at) { return p.first < at; });
  if (above == curve.end()) return curve.back().second;
  if (above == curve.begin() || above->first == x) return above->second;
  const auto below = above - 1;
  const double part = (x - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

// Losses go over many powers of ten.
double shown(double score, Measure measure) {
  return measure == Measure::kAccuracy ? 100 * score : std::log10(score);
}

std::string y_label(Measure measure) {
  return measure == Measure::kAccuracy ? "test accuracy, %" : "log10 of the test loss";
}

enum class Against { kTime, kSamples };

Series make_series(const Experiment& experiment, const GridResult& grid, const Setting& setting,
                   int strategy, Against against) {
  std::vector<CurvePoints> curves;
  for (const CellOutcome& outcome : grid.outcomes) {
    if (outcome.cell.strategy != strategy || !(outcome.cell.setting == setting)) continue;
    if (outcome.bad()) continue;
    CurvePoints points;
    for (const VirtualTest& test : outcome.result.run.tests) {
      const double score = shown(score_of(test, experiment.measure), experiment.measure);
      if (!std::isfinite(score)) continue;
      const double x = against == Against::kTime ? test.seconds : static_cast<double>(test.samples);
      points.emplace_back(x, score);
    }
    if (!points.empty()) curves.push_back(std::move(points));
  }
  const MeanCurve mean = mean_curve(curves, kPoints);
  Series out{experiment.strategies[static_cast<size_t>(strategy)].name, {}};
  for (size_t i = 0; i < mean.x.size(); ++i) {
    out.points.emplace_back(mean.x[i], mean.mean[i]);
    if (curves.size() > 1) out.band.push_back({mean.x[i], mean.low[i], mean.high[i]});
  }
  return out;
}

std::string chart(const Experiment& experiment, const GridResult& grid, const Setting& setting,
                  Against against) {
  Chart out;
  const bool time = against == Against::kTime;
  out.title = time ? "Against virtual time (modelled)" : "Against samples";
  out.x_label = time ? "virtual seconds" : "samples";
  out.y_label = y_label(experiment.measure);
  out.legend_below = true;
  for (int s = 0; s < static_cast<int>(experiment.strategies.size()); ++s) {
    out.series.push_back(make_series(experiment, grid, setting, s, against));
  }
  return "<figure>\n" + svg_chart(out) + "</figure>\n";
}

std::string row(const std::vector<std::string>& cells, const char* tag) {
  std::string out = "<tr>";
  for (const std::string& cell : cells) {
    out += fmt::format("<{}>{}</{}>", tag, escape_markup(cell), tag);
  }
  return out + "</tr>\n";
}

std::string html_table(const TextTable& table) {
  std::string out = "<div style='overflow-x:auto;margin-bottom:12px'><table>\n";
  out += row(table.headings, "th");
  for (const auto& cells : table.rows) out += row(cells, "td");
  return out + "</table></div>\n";
}

std::string html_list(const std::vector<std::string>& lines) {
  std::string out = "<ul>\n";
  for (const std::string& line : lines) out += "<li>" + escape_markup(line) + "</li>\n";
  return out + "</ul>\n";
}

std::string setting_section(const Experiment& experiment, const GridResult& grid,
                            const SettingTable& table) {
  std::string out = "<h2>" + escape_markup(setting_label(experiment, table.setting)) + "</h2>\n";
  const std::string targets = target_line(experiment, table);
  if (!targets.empty()) out += "<p>" + escape_markup(targets) + "</p>\n";
  out += chart(experiment, grid, table.setting, Against::kTime);
  out += chart(experiment, grid, table.setting, Against::kSamples);
  return out + html_table(time_table(experiment, table)) +
         html_table(cost_table(experiment, table));
}

// "0.1: 85.2 %; 0.05: 84.9 %", the best first; a rung each.
TextTable tuning_table(const Experiment& experiment, const GridResult& grid) {
  TextTable out;
  out.headings = {"strategy", "chosen on", "rung", "learning rates, the best first"};
  for (const Tuning& tuning : grid.tunings) {
    for (size_t rung = 0; rung < tuning.rungs.size(); ++rung) {
      std::vector<std::string> scores;
      for (const RateScore& score : tuning.rungs[rung]) {
        const std::string figure =
            score.final.count == 0 ? "none finished" : target_text(score.final.mean, experiment);
        scores.push_back(fmt::format("{:g}: {}", score.rate, figure));
      }
      out.rows.push_back({experiment.strategies[static_cast<size_t>(tuning.strategy)].name,
                          setting_label(experiment, tuning.setting), fmt::format("{}", rung + 1),
                          join(scores, "; ")});
    }
  }
  return out;
}

}  // namespace

MeanCurve mean_curve(const std::vector<CurvePoints>& curves, int points) {
  MeanCurve out;
  double begin = -std::numeric_limits<double>::infinity(), end = -begin;
  for (const CurvePoints& curve : curves) {
    begin = std::max(begin, curve.front().first);
    end = std::min(end, curve.back().first);
  }
  if (curves.empty() || points < 2 || begin > end) return out;
  for (int i = 0; i < points; ++i) {
    const double x = i + 1 == points ? end : begin + (end - begin) * i / (points - 1);
    double sum = 0, low = std::numeric_limits<double>::infinity(), high = -low;
    for (const CurvePoints& curve : curves) {
      const double value = value_at(curve, x);
      sum += value, low = std::min(low, value), high = std::max(high, value);
    }
    out.x.push_back(x);
    out.mean.push_back(sum / static_cast<double>(curves.size()));
    out.low.push_back(low);
    out.high.push_back(high);
  }
  return out;
}

std::string experiment_report(const Experiment& experiment, const GridResult& grid,
                              const ExperimentTable& table,
                              const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<std::string> rules = rules_of(experiment);
  rules.push_back("Curves: means over the seeds; shaded: their range.");
  std::string out = html_list(rules);
  for (const SettingTable& setting : table.settings) {
    out += setting_section(experiment, grid, setting);
  }
  const TextTable tuning = tuning_table(experiment, grid);
  if (!tuning.rows.empty()) out += "<h2>Learning rates</h2>\n" + html_table(tuning);
  if (!table.dropped.empty())
    out += "<h2>Runs that are in no mean</h2>\n" + html_list(table.dropped);
  std::vector<std::string> published;
  for (const PublishedFigure& p : experiment.published) {
    published.push_back(fmt::format("{} (not comparable: {})", p.text, p.why));
  }
  if (!published.empty()) out += "<h2>Published figures</h2>\n" + html_list(published);
  return html_page({experiment.name, experiment.about, join(table.builds, " and ")},
                   out + html_files(files));
}

}  // namespace kinet
