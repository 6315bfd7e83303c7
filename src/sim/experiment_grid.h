// All runs of an experiment: learning rates by successive halving on the tuning seeds, then every
// strategy at its own best rate on the seeds that make the figures.
//
//   tuning, rung r of R: rates left x tune_seeds, keep^(R - r) of the length -> the best keep go on
//   figures:             best rate x seeds, whole length
//
// The best rate is that of fewest diverged runs, then of the best final figure, or, when rates are
// tuned by time, of most runs that reached the last target, then of the least mean time to it; then
// the smaller one.
#pragma once

#include <string>
#include <vector>

#include "src/sim/experiment_batch.h"
#include "src/sim/statistics.h"

namespace kinet {

// A rate in a rung.
struct RateScore {
  double rate = 0;
  int runs = 0, bad = 0;  // bad: diverged or failed
  Summary final;          // over the others
  int reached = 0;        // tuned by time: runs that reached the target, and when
  Summary seconds;
};

struct Tuning {
  int strategy = 0;
  Setting setting;                            // that the rate was chosen in
  std::vector<std::vector<RateScore>> rungs;  // each with the best first
  double best = 0;
  bool at_edge = false;  // the least or the largest of several: perhaps one beyond is better
  int runs = 0;
  std::string problem;  // why there is no best rate; "" when there is one
};

// What is to be run: a phase for each rung (perhaps without cells), then the figures. Of later
// rungs it is not known which rates are left: the first ones stand in.
struct GridPhase {
  std::string name;
  std::vector<Cell> cells;
};

struct GridProgress {
  int done = 0, cells = 0;  // of the whole grid
  double seconds_left = 0;  // real
};

// Told by any thread, one at a time.
class GridObserver {
 public:
  virtual ~GridObserver() = default;
  virtual void on_phase(const std::string& /*name*/, int /*cells*/) {}
  virtual void on_cell(const CellOutcome&, const GridProgress&) {}
};

struct GridResult {
  std::vector<Setting> settings;      // clusters x workers
  std::vector<Tuning> tunings;        // of every strategy in every setting of tuning
  std::vector<CellOutcome> outcomes;  // of the figures: settings x strategies x seeds
  std::vector<CellOutcome> bad;       // of tuning: what diverged or failed
  int run = 0, stored = 0;            // cells
  bool interrupted = false;           // the rest is not to be used

  const Tuning& tuning(const Experiment& experiment, int strategy, const Setting& setting) const;
};

std::vector<Setting> settings_of(const Experiment& experiment);
std::vector<GridPhase> plan_grid(const Experiment& experiment);
GridResult run_grid(const Experiment& experiment, CellRunner& runner, const BatchOptions& options,
                    GridObserver& observer);

}  // namespace kinet
