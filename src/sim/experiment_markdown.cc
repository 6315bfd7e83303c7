// table.md, and the text tables that the page shows too.
#include <fmt/format.h>

#include <cmath>

#include "src/base/text.h"
#include "src/sim/experiment_files.h"

namespace kinet {
namespace {

std::string strategy_name(const Experiment& experiment, int strategy) {
  return experiment.strategies[static_cast<size_t>(strategy)].name;
}

template <class T>
std::string list_of(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(fmt::format("{}", value));
  return join(texts, ", ");
}

// "bsp", "asp (1 of 5 diverged)"
std::string row_name(const Experiment& experiment, const TableRow& row) {
  std::string name = strategy_name(experiment, row.strategy);
  std::vector<std::string> notes;
  const auto note = [&](int count, const char* what) {
    if (count > 0) notes.push_back(fmt::format("{} of {} {}", count, row.runs, what));
  };
  note(row.diverged, "diverged");
  note(row.failed, "failed");
  if (row.not_run < row.runs) note(row.not_run, "not run");
  if (!row.problem.empty()) notes.push_back(row.problem);
  return notes.empty() ? name : fmt::format("{} ({})", name, join(notes, ", "));
}

std::string rate_text(const TableRow& row) {
  if (!row.problem.empty()) return "–";
  return fmt::format("{:.4g}{}", row.rate, row.at_edge ? " *" : "");
}

// Bars and stars mean something in Markdown.
std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' || c == '*' ? std::string{'\\', c} : std::string{c};
  return out;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) out += " " + markdown_cell(cell) + " |";
  return out + "\n";
}

std::string markdown_table(const TextTable& table) {
  std::string out = markdown_row(table.headings);
  out += markdown_row(std::vector<std::string>(table.headings.size(), "---"));
  for (const auto& row : table.rows) out += markdown_row(row);
  return out;
}

std::string markdown_list(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "* " + markdown_cell(line) + "\n";
  return out;
}

std::string bytes_text(const Summary& bytes) {
  return bytes.count == 0 ? "–" : human_bytes(static_cast<uint64_t>(std::llround(bytes.mean)));
}

// "12.0 MB, 15.3 MB"; of strategies without servers nothing.
std::string link_text(const TableRow& row) {
  if (row.mean_link.count == 0 || row.mean_link.mean == 0) return "–";
  return bytes_text(row.mean_link) + ", " + bytes_text(row.p99_link);
}

std::string percent_text(const Summary& part) {
  return part.count == 0 ? "–" : fmt::format("{:.1f} %", 100 * part.mean);
}

std::string about_strategies(const Experiment& experiment) {
  std::vector<std::string> lines;
  for (const Strategy& strategy : experiment.strategies) {
    if (!strategy.about.empty()) lines.push_back(strategy.name + ": " + strategy.about);
  }
  return lines.empty() ? "" : "\n" + markdown_list(lines);
}

// "4 each", or "bsp 4, asp 6": budgets that differ have to be seen.
std::string rates_tried(const Experiment& experiment) {
  std::vector<std::string> texts;
  bool same = true;
  const size_t first = experiment.strategies.front().rates.size();
  for (const Strategy& strategy : experiment.strategies) {
    same = same && strategy.rates.size() == first;
    texts.push_back(fmt::format("{} {}", strategy.name, strategy.rates.size()));
  }
  return same ? fmt::format("{} each", first) : join(texts, ", ");
}

}  // namespace

TextTable time_table(const Experiment& experiment, const SettingTable& table) {
  TextTable out;
  out.headings = {"strategy", "base_lr"};
  const std::string baseline = strategy_name(experiment, experiment.baseline);
  for (const TableTarget& target : table.targets) {
    const std::string at = target_text(target.value, experiment);
    out.headings.push_back("s to " + at);
    out.headings.push_back("samples to " + at);
    out.headings.push_back("speed-up − 1 over " + baseline);
    if (experiment.candidate < 0) continue;
    out.headings.push_back(strategy_name(experiment, experiment.candidate) + " over it");
  }
  out.headings.push_back("final " + experiment.measure_name());
  for (const TableRow& row : table.rows) {
    std::vector<std::string> cells{row_name(experiment, row), rate_text(row)};
    for (const TargetFigure& figure : row.targets) {
      cells.push_back(reached_text(figure.time, figure.reached, row.runs));
      cells.push_back(figure_text(figure.work));
      cells.push_back(speed_up_text(figure.over_baseline, row.runs));
      if (experiment.candidate >= 0)
        cells.push_back(speed_up_text(figure.candidate_over, row.runs));
    }
    cells.push_back(final_text(row, experiment));
    out.rows.push_back(std::move(cells));
  }
  return out;
}

TextTable cost_table(const Experiment& experiment, const SettingTable& table) {
  TextTable out;
  out.headings = {"strategy", "run, s", "samples", "moved",    "link a s", "server s",
                  "waiting",  "k",      "lag",     "max. lag", "gap"};
  for (const TableRow& row : table.rows) {
    out.rows.push_back({strategy_name(experiment, row.strategy), figure_text(row.seconds),
                        figure_text(row.samples), bytes_text(row.bytes), link_text(row),
                        figure_text(row.server_seconds), percent_text(row.waiting),
                        figure_text(row.k), figure_text(row.lag), figure_text(row.max_lag),
                        figure_text(row.gap)});
  }
  return out;
}

std::string target_line(const Experiment& experiment, const SettingTable& table) {
  std::vector<std::string> texts;
  for (const TableTarget& target : table.targets) {
    std::string text = target_text(target.value, experiment);
    if (!target.from.empty()) text += " (" + target.from + ")";
    texts.push_back(std::move(text));
  }
  if (texts.empty()) return "";
  return "Targets, test " + experiment.measure_name() + ": " + join(texts, "; ") + ".";
}

std::vector<std::string> rules_of(const Experiment& experiment) {
  std::vector<std::string> out{
      "All times are modelled: virtual seconds of the cluster files. Gradients, weights and test "
      "scores are real.",
      fmt::format("Figures are means ± standard deviations over {} seed{} ({}); (3/5): three of "
                  "five runs reached the target, and the mean is of those.",
                  experiment.seeds.size(), experiment.seeds.size() == 1 ? "" : "s",
                  list_of(experiment.seeds))};
  std::string rates = "Every strategy runs at its own best learning rate";
  if (experiment.tune_seeds.empty()) {
    rates = "Learning rates were given, not searched";
  } else {
    rates +=
        fmt::format(", chosen on other seeds ({}) by {}", list_of(experiment.tune_seeds),
                    experiment.tune_by == TuneBy::kFinal ? "the final " + experiment.measure_name()
                                                         : "the time to the last target");
    if (!experiment.tune_cluster.empty()) {
      rates += " on cluster " + cluster_name(experiment, -1);
    }
    rates += fmt::format(" (rates tried: {}); *: the least or the largest of those tried",
                         rates_tried(experiment));
  }
  out.push_back(rates + ".");
  out.push_back(
      "Speed-up − 1: ratio of times − 1, geometric mean over the seeds at which both reached the "
      "target (3/5: three of five), with a paired 95 % interval.");
  return out;
}

std::string table_markdown(const Experiment& experiment, const ExperimentTable& table) {
  std::string out = "# " + experiment.name + "\n\n";
  if (!experiment.about.empty()) out += experiment.about + "\n\n";
  out += markdown_list(rules_of(experiment)) + about_strategies(experiment);
  for (const SettingTable& setting : table.settings) {
    out += "\n## " + setting_label(experiment, setting.setting) + "\n\n";
    const std::string targets = target_line(experiment, setting);
    if (!targets.empty()) out += targets + "\n\n";
    out += markdown_table(time_table(experiment, setting)) + "\n";
    out += markdown_table(cost_table(experiment, setting));
  }
  if (!table.dropped.empty()) {
    out += "\n## Runs that are in no mean\n\n" + markdown_list(table.dropped);
  }
  if (!experiment.published.empty()) {
    std::vector<std::string> lines;
    for (const PublishedFigure& p : experiment.published) {
      lines.push_back(fmt::format("{} (not comparable: {})", p.text, p.why));
    }
    out += "\n## Published figures\n\n" + markdown_list(lines);
  }
  return out + "\nMade by " + join(table.builds, " and ") + ".\n";
}

}  // namespace kinet
