#include "src/sim/experiment_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "src/base/check.h"
#include "src/sim/rate_choice.h"

namespace kinet {
namespace {

using State = CellOutcome::State;

// Real time that is left, from what the finished cells took.
class Clock {
 public:
  Clock(int jobs, std::vector<double> planned) : jobs_(std::max(jobs, 1)) {
    cells_ = static_cast<int>(planned.size());
    left_ = std::accumulate(planned.begin(), planned.end(), 0.0);
  }
  GridProgress count(const CellOutcome& outcome, double work) {
    ++done_;
    left_ -= work;
    if (outcome.state == State::kDone && work > 0) {
      measured_ += outcome.result.real_seconds;
      measured_work_ += work;
    }
    const double pace = measured_work_ > 0 ? measured_ / measured_work_ : 1;
    return {done_, std::max(done_, cells_), std::max(0.0, left_) * pace / jobs_};
  }
  // Cells of the plan that turned out not to be needed.
  void forget(int cells, double work) { cells_ -= cells, left_ -= work; }

 private:
  int jobs_, done_ = 0, cells_ = 0;
  double left_ = 0, measured_ = 0, measured_work_ = 0;
};

class Grid {
 public:
  Grid(const Experiment& experiment, CellRunner& runner, const BatchOptions& options,
       GridObserver& observer)
      : experiment_(experiment),
        runner_(runner),
        options_(options),
        observer_(observer),
        phases_(plan_grid(experiment)),
        clock_(options.jobs, all_work()) {}

  GridResult run() {
    result_.settings = settings_of(experiment_);
    RateChoice choice(experiment_);
    for (int rung = 0; rung < experiment_.halving.rungs; ++rung) {
      const std::vector<CellOutcome> outcomes = run_phase(rung, choice.cells(rung));
      if (result_.interrupted) return std::move(result_);
      choice.judge(rung, outcomes);
      for (const CellOutcome& outcome : outcomes) {
        if (outcome.bad() && outcome.state != State::kNotRun) result_.bad.push_back(outcome);
      }
    }
    result_.tunings = choice.tunings();
    result_.outcomes = run_phase(experiment_.halving.rungs, figure_cells(experiment_, result_));
    return std::move(result_);
  }

  static std::vector<Cell> figure_cells(const Experiment& experiment, const GridResult& result) {
    std::vector<Cell> cells;
    for (const Setting& setting : result.settings) {
      for (int s = 0; s < static_cast<int>(experiment.strategies.size()); ++s) {
        const Tuning& tuning = result.tuning(experiment, s, setting);
        if (!tuning.problem.empty()) continue;
        for (const uint64_t seed : experiment.seeds) {
          cells.push_back({s, setting, tuning.best, seed, 1});
        }
      }
    }
    return cells;
  }

 private:
  std::vector<double> all_work() const {
    std::vector<double> out;
    for (const GridPhase& phase : phases_) {
      for (const Cell& cell : phase.cells) out.push_back(runner_.work(cell));
    }
    return out;
  }

  std::vector<CellOutcome> run_phase(int phase, const std::vector<Cell>& cells) {
    const GridPhase& planned = phases_[static_cast<size_t>(phase)];
    double less = 0;
    for (const Cell& cell : planned.cells) less += runner_.work(cell);
    std::vector<double> work;
    for (const Cell& cell : cells) work.push_back(runner_.work(cell)), less -= work.back();
    clock_.forget(static_cast<int>(planned.cells.size()) - static_cast<int>(cells.size()), less);
    if (cells.empty()) return {};
    observer_.on_phase(planned.name, static_cast<int>(cells.size()));
    const auto tell = [&](const CellOutcome& outcome) {
      (outcome.stored ? result_.stored : result_.run) += outcome.state != State::kNotRun;
      const auto at = std::find(cells.begin(), cells.end(), outcome.cell) - cells.begin();
      observer_.on_cell(outcome, clock_.count(outcome, work[static_cast<size_t>(at)]));
    };
    std::vector<CellOutcome> outcomes = run_cells(experiment_, cells, runner_, options_, tell);
    result_.interrupted = options_.stop != nullptr && options_.stop->load();
    return outcomes;
  }

  const Experiment& experiment_;
  CellRunner& runner_;
  const BatchOptions& options_;
  GridObserver& observer_;
  const std::vector<GridPhase> phases_;
  Clock clock_;
  GridResult result_;
};

}  // namespace

const Tuning& GridResult::tuning(const Experiment& experiment, int strategy,
                                 const Setting& setting) const {
  Setting wanted = setting;
  if (!experiment.tune_cluster.empty()) wanted.cluster = -1;
  for (const Tuning& tuning : tunings) {
    if (tuning.strategy == strategy && tuning.setting == wanted) return tuning;
  }
  fail("no rate was chosen for strategy '{}' on {}",
       experiment.strategies[static_cast<size_t>(strategy)].name,
       setting_label(experiment, wanted));
}

std::vector<Setting> settings_of(const Experiment& experiment) {
  std::vector<Setting> out;
  for (int cluster = 0; cluster < static_cast<int>(experiment.clusters.size()); ++cluster) {
    for (const int workers : experiment.workers) out.push_back({cluster, workers});
  }
  return out;
}

std::vector<GridPhase> plan_grid(const Experiment& experiment) {
  std::vector<GridPhase> phases;
  RateChoice choice(experiment);
  for (int rung = 0; rung < experiment.halving.rungs; ++rung) {
    const std::string which =
        experiment.halving.rungs == 1
            ? ""
            : fmt::format(", rung {} of {}", rung + 1, experiment.halving.rungs);
    phases.push_back({"tuning" + which, choice.cells(rung)});
    choice.keep_first(rung);
  }
  GridResult stand_in;
  stand_in.settings = settings_of(experiment);
  stand_in.tunings = choice.tunings();
  phases.push_back({"figures", Grid::figure_cells(experiment, stand_in)});
  return phases;
}

GridResult run_grid(const Experiment& experiment, CellRunner& runner, const BatchOptions& options,
                    GridObserver& observer) {
  return Grid(experiment, runner, options, observer).run();
}

}  // namespace kinet
