// The table of an experiment as files: for people (Markdown), for spreadsheets (CSV, a line for
// each setting, strategy and target) and for programs (JSON, every seed's figures and the tuning).
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "src/sim/experiment_table.h"

namespace kinet {

// Rows of text with their headings: what the Markdown and the page show.
struct TextTable {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
};
TextTable time_table(const Experiment& experiment, const SettingTable& table);
TextTable cost_table(const Experiment& experiment, const SettingTable& table);
// "Targets: 80 %; 85.1 % (bsp's final 0.856 - 0.005)", or "".
std::string target_line(const Experiment& experiment, const SettingTable& table);
// How the figures came about, a sentence each.
std::vector<std::string> rules_of(const Experiment& experiment);

std::string table_markdown(const Experiment& experiment, const ExperimentTable& table);
std::string table_csv(const Experiment& experiment, const ExperimentTable& table);
std::string results_json(const Experiment& experiment, const GridResult& grid,
                         const ExperimentTable& table);

}  // namespace kinet
