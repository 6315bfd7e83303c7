// The page from top to bottom: title and status, tiles with figures, charts, settings, files.
#include "src/solver/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "src/base/text.h"
#include "src/solver/chart.h"
#include "src/solver/html_page.h"

namespace kinet {
namespace {

constexpr size_t kMaxSeries = 6;  // as many as there are colours; more could not be told apart

// Losses are sums and means of anything; four digits tell what can be told.
std::string figure(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value) : "–";
}

bool is_loss(const OutputValue& output) { return output.loss_weight != 0; }

std::string series_name(const TestRecord& test, const std::string& output) {
  return test.net == 0 ? output : fmt::format("{} (test net {})", output, test.net);
}

// Test outputs that are no losses, by name, in order of first appearance. An output of many
// elements (accuracy by class) would hide the others and is left to metrics.jsonl.
std::vector<Series> score_series(const RunHistory& history) {
  std::vector<Series> all;
  std::map<std::string, size_t> index;
  for (const TestRecord& test : history.tests) {
    std::map<std::string, int> elements;
    for (const OutputValue& output : test.outputs) ++elements[output.name];
    for (const OutputValue& output : test.outputs) {
      if (is_loss(output) || elements[output.name] > 1) continue;
      const std::string name = series_name(test, output.name);
      const auto [slot, is_new] = index.emplace(name, all.size());
      if (is_new) all.push_back({name, {}, true});
      all[slot->second].points.emplace_back(test.iteration, output.value);
    }
  }
  if (all.size() > kMaxSeries) all.resize(kMaxSeries);
  return all;
}

std::vector<Series> loss_series(const RunHistory& history) {
  std::vector<Series> all{{"training", {}, false}};
  for (const DisplayRecord& r : history.displays) all[0].points.emplace_back(r.iteration, r.loss);
  std::map<int, Series> tests;
  for (const TestRecord& test : history.tests) {
    const bool any = std::any_of(test.outputs.begin(), test.outputs.end(), is_loss);
    if (!any) continue;
    Series& series = tests[test.net];
    series.name = series_name(test, "test");
    series.markers = true;
    series.points.emplace_back(test.iteration, test.loss);
  }
  for (auto& [net, series] : tests) all.push_back(std::move(series));
  return all;
}

Series rate_series(const RunHistory& history) {
  Series series{"learning rate", {}, false};
  series.steps = history.start.lr_policy == "step" || history.start.lr_policy == "multistep";
  for (const DisplayRecord& r : history.displays) {
    series.points.emplace_back(r.iteration, r.learning_rate);
  }
  return series;
}

std::string score_title(const std::vector<Series>& series) {
  if (series.size() == 1) return "Test " + series[0].name;
  return series.empty() ? "Test accuracy" : "Test scores";
}

// All charts show the same iterations, so that they can be read one below the other.
void share_range(const RunHistory& history, std::vector<Chart>& charts) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto add = [&](double x) { low = std::min(low, x), high = std::max(high, x); };
  for (const Chart& chart : charts) {
    for (const Series& series : chart.series) {
      for (const auto& point : series.points) add(point.first);
    }
  }
  if (history.finish) add(static_cast<double>(history.finish->iteration));
  if (!(high > low)) return;
  for (Chart& chart : charts) chart.x_low = low, chart.x_high = high;
}

std::string charts(const RunHistory& history) {
  const std::vector<Series> scores = score_series(history);
  std::vector<Chart> all{{"Loss", "iteration", "loss", loss_series(history), true},
                         {score_title(scores), "iteration", "score", scores, false},
                         {"Learning rate", "iteration", "rate", {rate_series(history)}, true}};
  for (Chart& chart : round_charts(history.rounds)) all.push_back(std::move(chart));
  share_range(history, all);
  std::string out;
  for (const Chart& chart : all) out += "<figure>\n" + svg_chart(chart) + "</figure>\n";
  return out;
}

std::string tile(const std::string& value, const std::string& label) {
  return fmt::format("<div class='tile'><b>{}</b><span>{}</span></div>\n", escape_markup(value),
                     escape_markup(label));
}

struct LastFigures {
  double loss = NAN, epoch = 0;
};

// Of the end of the run, which mostly lies after the last display.
LastFigures last_figures(const RunHistory& history) {
  LastFigures out;
  if (!history.displays.empty()) {
    out = {history.displays.back().loss, history.displays.back().epoch};
  }
  if (!history.finish) return out;
  if (std::isfinite(history.finish->loss)) out.loss = history.finish->loss;
  const double per_epoch = history.start.iterations_per_epoch;
  if (per_epoch > 0) out.epoch = static_cast<double>(history.finish->iteration) / per_epoch;
  return out;
}

std::string tiles(const RunHistory& history) {
  std::string out;
  for (const Series& series : score_series(history)) {
    const auto& points = series.points;
    const auto best = std::max_element(points.begin(), points.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    out += tile(figure(points.back().second), "last " + series.name);
    out += tile(figure(best->second), fmt::format("highest {}, at iteration {}", series.name,
                                                  with_commas(std::llround(best->first))));
  }
  const LastFigures last = last_figures(history);
  if (std::isfinite(last.loss)) out += tile(figure(last.loss), "training loss");
  if (last.epoch > 0) out += tile(fmt::format("{:.4g}", last.epoch), "epochs");
  if (!history.displays.empty()) {
    out += tile(with_commas(std::llround(history.displays.back().images_per_second)), "images/s");
    const DisplayRecord& end = history.displays.back();
    if (end.search_share > 0) {
      out += tile(figure(end.rate_multiplier),
                  fmt::format("rate multiplier; its search took {:.1f} % of the time",
                              100 * end.search_share));
    }
  }
  if (!history.rounds.empty()) {
    const RoundBucket rounds = history.rounds.total();
    out += tile(figure(rounds.mean_k()), "k, mean over the run");
    out += tile(figure(rounds.mean_lag()), "versions of lag, mean");
  }
  const double seconds = history.finish              ? history.finish->seconds
                         : !history.displays.empty() ? history.displays.back().seconds
                                                     : 0;
  return out + tile(human_seconds(seconds), "time");
}

std::string row(const std::string& name, const std::string& value) {
  return fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_markup(name),
                     escape_markup(value));
}

std::string settings(const StartRecord& s) {
  std::string out = "<table>\n";
  out += row("net", s.net_name) + row("parameters", with_commas(s.parameters));
  out += row("solver", fmt::format("{}, learning rate policy {}", s.solver_type, s.lr_policy));
  out += row("batch", fmt::format("{} × {} (iter_size)", s.batch, s.iter_size));
  if (s.train_items > 0) out += row("training items", with_commas(s.train_items));
  out += row("iterations",
             fmt::format("{} to {}", with_commas(s.iteration), with_commas(s.max_iterations)));
  out += row("seed", fmt::format("{}{}", s.seed, s.seed_chosen ? " (chosen by the clock)" : ""));
  out += row("threads", fmt::format("{}", s.threads));
  if (!s.resumed_from.empty()) out += row("resumed from", s.resumed_from);
  if (!s.weights.empty()) out += row("weights to start from", join(s.weights, ", "));
  return out + "</table>\n";
}

std::string status(const RunHistory& history) {
  if (!history.finish) return "running";
  const FinishRecord& finish = *history.finish;
  return fmt::format("ended at iteration {}: {}", with_commas(finish.iteration), finish.reason);
}

}  // namespace

std::string render_report(const RunHistory& history, const ReportSource& source) {
  std::string out = "<div class='tiles'>\n" + tiles(history) + "</div>\n" + charts(history);
  out += "<h2>Settings</h2>\n" + settings(history.start) + html_files(source.files);
  return html_page({source.name, status(history), source.build}, out);
}

}  // namespace kinet
