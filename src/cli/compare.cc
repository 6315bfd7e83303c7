// kinet compare: synchronisation strategies against each other on virtual clusters, as an
// experiment file says (src/sim/experiment.h), to one table and one page.
//
// Every finished run is kept in the output folder at once, under a key of all that it depends on,
// so that the same command goes on after an interruption, and a changed experiment computes what
// changed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <thread>

#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/cli/command.h"
#include "src/cli/console.h"
#include "src/cli/options.h"
#include "src/cli/signals.h"
#include "src/cli/table.h"
#include "src/cli/train_parts.h"
#include "src/sim/experiment_files.h"
#include "src/sim/experiment_report.h"
#include "src/sim/experiment_runner.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

constexpr SignalWords kWords{"\nkinet: stopping; runs that are finished are kept\n",
                             "\nkinet: stopping now\n",
                             "\nkinet: every finished run is kept already\n"};

// Lines in a log, a live line on a terminal.
class CompareLog : public GridObserver {
 public:
  CompareLog(Console& console, const Experiment& experiment, bool quiet)
      : console_(console), experiment_(experiment), quiet_(quiet) {}

  void on_phase(const std::string& name, int cells) override {
    phase_ = name;
    if (!quiet_) console_.line(fmt::format("{}: {} runs", name, cells));
  }

  void on_cell(const CellOutcome& outcome, const GridProgress& progress) override {
    last_ = progress;
    const std::string label = cell_label(experiment_, outcome.cell);
    if (outcome.state == CellOutcome::State::kFailed) {
      console_.warning(fmt::format("{}: failed: {}", label, outcome.why));
    } else if (outcome.bad() && outcome.state == CellOutcome::State::kDone) {
      console_.warning(fmt::format("{}: diverged", label));
    }
    if (quiet_ || outcome.state != CellOutcome::State::kDone) return;
    const std::string count = fmt::format("{} of {}", progress.done, progress.cells);
    const std::string left = human_seconds(progress.seconds_left);
    if (console_.mode() == Console::Mode::kTerminal) {
      const std::string line =
          fmt::format("{}: {} runs, about {} left; {}", phase_, count, left, label);
      console_.live(line.substr(0, static_cast<size_t>(std::max(20, console_.width() - 1))));
    } else if (!outcome.stored) {
      console_.line(fmt::format("{}: {}: {}, about {} left", count, label, text_of(outcome), left));
    }
  }

  const GridProgress& last() const { return last_; }

 private:
  std::string text_of(const CellOutcome& outcome) const {
    const auto final = final_score(outcome.result.run, experiment_);
    return fmt::format("final {} {} in {} s (modelled), {:.3g} s real", experiment_.measure_name(),
                       final ? target_text(*final, experiment_) : "–",
                       figure_text(outcome.result.run.seconds), outcome.result.real_seconds);
  }

  Console& console_;
  const Experiment& experiment_;
  const bool quiet_;
  std::string phase_;
  GridProgress last_;
};

class Compare : public Command {
 public:
  static CommandType describe() {
    return {"compare", "synchronisation strategies against each other, on virtual clusters",
            "kinet compare models/experiments/quick.prototxt"};
  }

  void configure(CLI::App& app) override {
    app.add_option("EXPERIMENT", path_, "experiment file (.prototxt)")->required();
    app.add_option("--out", out_, "folder of results [runs/compare-<name>]");
    app.add_option("--jobs", jobs_, "runs at a time, a thread each; 0, the default: all cores")
        ->check(CLI::Range(0, 1024));
    app.add_option("--only", only_,
                   "run only what this regular expression is found in: \"strategy, cluster, N "
                   "workers\"; the rest comes from the folder, or is left out");
    app.add_flag("--dry-run", dry_run_, "print what would be run, and how long it would take");
    app.add_flag("--rebuild", rebuild_, "compute results of another build of kinet anew");
    app.add_flag("--quiet", quiet_, "print only warnings and the end");
  }

  int run() override {
    require_file(path_, "experiment");
    const Experiment experiment = Experiment::load(path_);
    const std::regex only = only_pattern();
    if (jobs_ == 0) jobs_ = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (out_.empty()) out_ = "runs/compare-" + stem_of(path_);
    VirtualRunner runner(experiment);
    if (dry_run_ || !quiet_) print_plan(experiment, runner);
    if (dry_run_) return 0;

    const CellStore store(fs::path(out_) / "cells");
    SolverControl control;
    const TrainingSignals signals(control, kWords);
    BatchOptions options;
    options.jobs = jobs_;
    options.store = &store;
    options.rebuild = rebuild_;
    options.stop = &control.stop;
    if (!only_.empty()) {
      options.wanted = [&](const Cell& cell) {
        return std::regex_search(only_label(experiment, cell), only);
      };
    }
    Console console;
    CompareLog log(console, experiment, quiet_);
    const GridResult grid = run_grid(experiment, runner, options, log);
    console.clear_live();
    if (grid.interrupted) {
      std::printf("Stopped: %d of %d runs are done. Go on with:\n  %s\n", grid.run + grid.stored,
                  log.last().cells, command_line().c_str());
      return 128 + signals.stopped_by();
    }
    write_files(experiment, grid);
    return 0;
  }

 private:
  std::regex only_pattern() const {
    try {
      return std::regex(only_);
    } catch (const std::regex_error& error) {
      fail("--only {}: is no regular expression: {}", only_, error.what());
    }
  }

  static std::string only_label(const Experiment& experiment, const Cell& cell) {
    return experiment.strategies[static_cast<size_t>(cell.strategy)].name + ", " +
           setting_label(experiment, cell.setting);
  }

  void print_plan(const Experiment& experiment, VirtualRunner& runner) const {
    const auto count = [](size_t n, const char* what) {
      return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
    };
    std::printf("%s\n%s\n%s x %s x %s\n%s\n", build_info_line().c_str(), experiment.name.c_str(),
                fmt::format("{} strategies", experiment.strategies.size()).c_str(),
                count(settings_of(experiment).size(), "setting").c_str(),
                count(experiment.seeds.size(), "seed").c_str(), runner.describe().c_str());
    Table table({"phase", ">runs", ">real time"});
    size_t runs = 0;
    double seconds = 0;
    for (const GridPhase& phase : plan_grid(experiment)) {
      if (phase.cells.empty()) continue;
      double mine = 0;
      for (const Cell& cell : phase.cells) mine += runner.work(cell) / jobs_;
      table.add(
          {phase.name, with_commas(static_cast<int64_t>(phase.cells.size())), human_seconds(mine)});
      runs += phase.cells.size();
      seconds += mine;
    }
    table.add_rule();
    table.add({"at most", with_commas(static_cast<int64_t>(runs)), human_seconds(seconds)});
    std::printf(
        "%sThe time is that of gradients and tests with %d runs at a time; runs that lie "
        "in %s cost none.\n",
        table.str().c_str(), jobs_, out_.c_str());
    std::fflush(stdout);
  }

  void write_files(const Experiment& experiment, const GridResult& grid) const {
    const ExperimentTable table = make_table(experiment, grid);
    const fs::path out(out_);
    std::vector<std::pair<std::string, std::string>> files{
        {fs::path(path_).filename().string(), read_file(path_)}};
    if (!experiment.solver.empty()) files.emplace_back("solver", read_file(experiment.solver));
    write_file_atomic(out / "experiment.prototxt", files[0].second);
    write_file_atomic(out / "table.md", table_markdown(experiment, table));
    write_file_atomic(out / "table.csv", table_csv(experiment, table));
    write_file_atomic(out / "results.json", results_json(experiment, grid, table));
    write_file_atomic(out / "report.html", experiment_report(experiment, grid, table, files));
    print_table(experiment, table);
    std::printf("%d runs computed, %d found in %s. Table: %s, report: %s\n", grid.run, grid.stored,
                out_.c_str(), (out / "table.md").c_str(), (out / "report.html").c_str());
    const auto other = [](const std::string& build) { return build != build_info_line(); };
    if (std::any_of(table.builds.begin(), table.builds.end(), other)) {
      std::printf("Some results are of another build of kinet; --rebuild computes them anew.\n");
    }
  }

  static void print_table(const Experiment& experiment, const ExperimentTable& table) {
    for (const SettingTable& setting : table.settings) {
      const TextTable text = time_table(experiment, setting);
      Table out(text.headings);
      for (const auto& row : text.rows) out.add(row);
      std::printf("\n%s (modelled). %s\n%s", setting_label(experiment, setting.setting).c_str(),
                  target_line(experiment, setting).c_str(), out.str().c_str());
    }
    if (!table.dropped.empty()) {
      std::printf("\n%zu runs diverged, failed or were left out: they are listed in table.md.\n",
                  table.dropped.size());
    }
    std::printf("\n");
  }

  std::string command_line() const {
    std::string out = "kinet compare " + shell_word(path_);
    add_flag("--out", out_, out);
    add_flag("--only", only_, out);
    add_flag("--jobs", std::to_string(jobs_), out);
    return out;
  }

  std::string path_, out_, only_;
  int jobs_ = 0;
  bool dry_run_ = false, rebuild_ = false, quiet_ = false;
};
KINET_REGISTER_COMMAND(Compare);

}  // namespace
}  // namespace kinet
