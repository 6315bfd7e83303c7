// The figures of an experiment: for every setting a row for every strategy.
//
// All times are virtual seconds of the cluster's model: modelled figures, and called that.
// Thread safety: value types and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/sim/experiment_grid.h"
#include "src/sim/statistics.h"

namespace kinet {

// A strategy and a target. One element of `seconds` and `samples` for each seed; none: not reached.
struct TargetFigure {
  double target = 0;
  std::vector<std::optional<double>> seconds, samples;
  int reached = 0;
  Summary time, work;  // over those that reached it
  std::optional<SpeedUp> over_baseline;
  std::optional<SpeedUp> candidate_over;  // of the candidate over this one
};

struct TableRow {
  int strategy = 0;
  double rate = 0;
  bool at_edge = false;
  int runs = 0, diverged = 0, failed = 0, not_run = 0;  // seeds
  std::string problem;                                  // no run at all: why
  std::vector<TargetFigure> targets;                    // as those of the setting
  std::vector<std::optional<double>> finals;            // a seed each
  Summary final, seconds, samples, bytes, server_seconds, k, lag, max_lag, gap;
  Summary mean_link, p99_link;  // bytes a second at the servers, the second of 1 s windows
  Summary waiting;              // part of the workers' time
};

struct TableTarget {
  double value = 0;
  std::string from;  // "bsp's 0.861 - 0.005", or ""
};

struct SettingTable {
  Setting setting;
  std::vector<TableTarget> targets;
  std::vector<TableRow> rows;  // as the strategies
};

struct ExperimentTable {
  std::vector<SettingTable> settings;
  std::vector<std::string> dropped;  // a line for every run that is in no mean, and why
  std::vector<std::string> builds;   // that the results are of
};

ExperimentTable make_table(const Experiment& experiment, const GridResult& grid);

// Texts of figures, shared by table.md and the page.
std::string figure_text(double value);                                    // four digits that count
std::string figure_text(const Summary& summary);                          // "12.3 ± 0.4"
std::string reached_text(const Summary& summary, int reached, int runs);  // "12.3 ± 0.4 (3/5)"
// "+57.8 % [+41.2, +76.0]", and " (3/5)" where only so many seeds made a pair.
std::string speed_up_text(const std::optional<SpeedUp>& gain, int seeds);
std::string final_text(const TableRow& row, const Experiment& experiment);  // "86.12 ± 0.20 %"
std::string target_text(double target, const Experiment& experiment);       // "85.6 %"

}  // namespace kinet
