#include "src/sim/experiment_files.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/base/text.h"
#include "src/sim/json_number.h"

namespace kinet {
namespace {

using Json = nlohmann::ordered_json;

Json numbers(const std::vector<std::optional<double>>& values) {
  Json out = Json::array();
  for (const auto& value : values) out.push_back(value ? json_number(*value) : Json(nullptr));
  return out;
}

Json summary_json(const Summary& s) {
  if (s.count == 0) return nullptr;
  return {
      {"mean", json_number(s.mean)}, {"deviation", json_number(s.deviation)}, {"runs", s.count}};
}

Json gain_json(const std::optional<SpeedUp>& gain) {
  if (!gain) return nullptr;
  Json out{{"gain", json_number(gain->gain)}, {"pairs", gain->pairs}};
  if (gain->has_interval) {
    out["low"] = json_number(gain->low);
    out["high"] = json_number(gain->high);
  }
  return out;
}

Json row_json(const Experiment& experiment, const TableRow& row) {
  Json out;
  out["strategy"] = experiment.strategies[static_cast<size_t>(row.strategy)].name;
  out["base_lr"] = json_number(row.rate);
  out["rate_at_edge"] = row.at_edge;
  if (!row.problem.empty()) out["problem"] = row.problem;
  out["runs"] = row.runs;
  out["diverged"] = row.diverged;
  out["failed"] = row.failed;
  out["not_run"] = row.not_run;
  out["final"] = summary_json(row.final);
  out["finals"] = numbers(row.finals);
  out["targets"] = Json::array();
  for (const TargetFigure& figure : row.targets) {
    out["targets"].push_back({{"target", json_number(figure.target)},
                              {"reached", figure.reached},
                              {"seconds", summary_json(figure.time)},
                              {"seconds_by_seed", numbers(figure.seconds)},
                              {"samples", summary_json(figure.work)},
                              {"samples_by_seed", numbers(figure.samples)},
                              {"over_baseline", gain_json(figure.over_baseline)},
                              {"candidate_over_it", gain_json(figure.candidate_over)}});
  }
  const std::pair<const char*, const Summary*> costs[] = {{"run_seconds", &row.seconds},
                                                          {"samples", &row.samples},
                                                          {"bytes", &row.bytes},
                                                          {"server_seconds", &row.server_seconds},
                                                          {"waiting_part", &row.waiting},
                                                          {"k", &row.k},
                                                          {"lag", &row.lag},
                                                          {"max_lag", &row.max_lag},
                                                          {"gap", &row.gap},
                                                          {"mean_link", &row.mean_link},
                                                          {"p99_link", &row.p99_link}};
  for (const auto& [name, summary] : costs) out[name] = summary_json(*summary);
  return out;
}

Json tuning_json(const Experiment& experiment, const Tuning& tuning) {
  Json out;
  out["strategy"] = experiment.strategies[static_cast<size_t>(tuning.strategy)].name;
  out["cluster"] = cluster_name(experiment, tuning.setting.cluster);
  out["workers"] = tuning.setting.workers;
  out["best"] = json_number(tuning.best);
  out["runs"] = tuning.runs;
  if (!tuning.problem.empty()) out["problem"] = tuning.problem;
  out["rungs"] = Json::array();
  for (const auto& rung : tuning.rungs) {
    Json scores = Json::array();
    for (const RateScore& score : rung) {
      scores.push_back({{"base_lr", json_number(score.rate)},
                        {"bad", score.bad},
                        {"final", summary_json(score.final)},
                        {"reached", score.reached},
                        {"seconds", summary_json(score.seconds)}});
    }
    out["rungs"].push_back(std::move(scores));
  }
  return out;
}

// A number as a spreadsheet reads it, or nothing.
std::string csv_number(int count, double value) {
  return count == 0 ? "" : fmt::format("{:.9g}", value);
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

void add_gain(const std::optional<SpeedUp>& gain, std::vector<std::string>& cells) {
  const bool interval = gain && gain->has_interval;
  cells.push_back(gain ? fmt::format("{:.6g}", gain->gain) : "");
  cells.push_back(interval ? fmt::format("{:.6g}", gain->low) : "");
  cells.push_back(interval ? fmt::format("{:.6g}", gain->high) : "");
}

constexpr const char* kCsvHead =
    "cluster,workers,strategy,base_lr,target,runs,reached,seconds,seconds_sd,samples,samples_sd,"
    "gain,gain_low,gain_high,candidate_gain,candidate_low,candidate_high,final,final_sd,bytes,"
    "server_seconds,k,lag,gap,diverged,failed\n";

// `figure`: of one target; null: there is no target, and those columns are empty.
std::string csv_line(const Experiment& experiment, const Setting& setting, const TableRow& row,
                     const TargetFigure* figure) {
  std::vector<std::string> cells{
      csv_text(cluster_name(experiment, setting.cluster)),
      std::to_string(setting.workers),
      csv_text(experiment.strategies[static_cast<size_t>(row.strategy)].name),
      fmt::format("{}", row.rate),
      figure != nullptr ? fmt::format("{:.6g}", figure->target) : "",
      std::to_string(row.runs)};
  const TargetFigure none;
  const TargetFigure& shown = figure != nullptr ? *figure : none;
  cells.push_back(figure != nullptr ? std::to_string(shown.reached) : "");
  const auto both = [&](const Summary& s) {
    cells.push_back(csv_number(s.count, s.mean));
    cells.push_back(csv_number(s.count, s.deviation));
  };
  both(shown.time);
  both(shown.work);
  add_gain(shown.over_baseline, cells);
  add_gain(shown.candidate_over, cells);
  both(row.final);
  for (const Summary* s : {&row.bytes, &row.server_seconds, &row.k, &row.lag, &row.gap}) {
    cells.push_back(csv_number(s->count, s->mean));
  }
  cells.push_back(std::to_string(row.diverged));
  cells.push_back(std::to_string(row.failed));
  return join(cells, ",") + "\n";
}

}  // namespace

std::string table_csv(const Experiment& experiment, const ExperimentTable& table) {
  std::string out = kCsvHead;
  for (const SettingTable& setting : table.settings) {
    for (const TableRow& row : setting.rows) {
      for (const TargetFigure& figure : row.targets) {
        out += csv_line(experiment, setting.setting, row, &figure);
      }
      if (row.targets.empty()) out += csv_line(experiment, setting.setting, row, nullptr);
    }
  }
  return out;
}

std::string results_json(const Experiment& experiment, const GridResult& grid,
                         const ExperimentTable& table) {
  Json out;
  out["experiment"] = experiment.name;
  out["modelled"] = "all times are virtual seconds of modelled clusters";
  out["measure"] = experiment.measure_name();
  out["baseline"] = experiment.strategies[static_cast<size_t>(experiment.baseline)].name;
  if (experiment.candidate >= 0) {
    out["candidate"] = experiment.strategies[static_cast<size_t>(experiment.candidate)].name;
  }
  out["seeds"] = experiment.seeds;
  out["tune_seeds"] = experiment.tune_seeds;
  out["builds"] = table.builds;
  out["settings"] = Json::array();
  for (const SettingTable& setting : table.settings) {
    Json rows = Json::array(), targets = Json::array();
    for (const TableRow& row : setting.rows) rows.push_back(row_json(experiment, row));
    for (const TableTarget& target : setting.targets) {
      targets.push_back({{"value", json_number(target.value)}, {"from", target.from}});
    }
    out["settings"].push_back({{"cluster", cluster_name(experiment, setting.setting.cluster)},
                               {"workers", setting.setting.workers},
                               {"targets", std::move(targets)},
                               {"rows", std::move(rows)}});
  }
  out["tuning"] = Json::array();
  for (const Tuning& tuning : grid.tunings) {
    out["tuning"].push_back(tuning_json(experiment, tuning));
  }
  out["dropped"] = table.dropped;
  return out.dump(1) + "\n";
}

}  // namespace kinet
