// An experiment file: synchronisation strategies that are compared on virtual clusters, each at its
// own best learning rate, all under the same rules.
//
//   strategies x learning rates x clusters x workers x seeds  =  the cells that experiment_grid
//   runs
//
// Rates are tuned on `tune_seed`s and figures are made on `seed`s; no seed may be both, since what
// was chosen on a seed is flattered by it.
// Thread safety: const after load().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/prototxt/fields.h"
#include "src/solver/solver.h"

namespace kinet {

enum class Measure { kAccuracy, kLoss };
enum class TuneBy { kFinal, kTime };

// Successive halving: of `rungs` rounds, the last one runs the whole length and each one before it
// `keep` of the length of the next; after each the best `keep` of the rates go on.
struct Halving {
  double keep = 0.5;
  int rungs = 1;  // 1: every rate runs the whole length
};

// Solver fields for one number of workers alone: "warmup_start_lr=0.0125" with eight.
struct WorkersSet {
  int workers = 0;
  std::vector<std::string> set;
};

struct Strategy {
  std::string name, about;
  std::vector<std::string> set;  // solver fields that win over the file: "momentum=0"
  ParamNode sync_param;          // { model: ... }; without children: bsp
  std::vector<WorkersSet> at_workers;
  std::vector<double> rates;  // learning rates (base_lr) to try, ascending; one at least
  Position where;
};

// A published figure, shown beside the table but never compared with it.
struct PublishedFigure {
  std::string text, why;  // why it cannot be compared
};

struct Experiment {
  std::string name, about, path;
  std::string solver, objective;                        // files; one may be ""
  std::vector<std::string> set;                         // for all strategies
  std::vector<WorkersSet> at_workers;                   // for all, before those of a strategy
  std::vector<std::string> objective_set, cluster_set;  // the same for these files
  std::vector<int> workers;
  std::vector<std::string> clusters;  // files
  std::string tune_cluster;           // where rates are chosen; "": on each cluster its own
  std::vector<uint64_t> seeds, tune_seeds;

  // The length of a run: one of the first two, and a limit in virtual seconds.
  double epochs = 0;
  int64_t max_iter = 0;    // iterations of as many gradients as there are workers
  double max_seconds = 0;  // 0: none
  int64_t tests = 0;       // of a run; 0: as the solver's test_interval says

  Halving halving;
  Measure measure = Measure::kAccuracy;
  TuneBy tune_by = TuneBy::kFinal;
  int final_tests = 1;          // tests at the end whose mean is the final accuracy
  std::vector<double> targets;  // in the order of the file
  int target_from = -1;         // strategy whose final figure gives one more target; -1: none
  double margin = 0;
  int baseline = 0, candidate = -1;  // strategies
  std::vector<Strategy> strategies;
  std::vector<PublishedFigure> published;

  // Throws Error with all that is wrong with the file, each with its place and what to do.
  static Experiment load(const std::string& path);
  static Experiment parse(const std::string& text, const std::string& path);
  static const MessageType& fields();

  // The solver file of a strategy at a rate, checked; `more` wins over everything.
  std::shared_ptr<const SolverConfig> config(const Strategy& strategy, double rate,
                                             const std::vector<std::string>& more = {}) const;
  // What is set for a number of workers, for `more`.
  std::vector<std::string> set_at(const Strategy& strategy, int workers) const;
  bool higher_is_better() const { return measure == Measure::kAccuracy; }
  std::string measure_name() const { return higher_is_better() ? "accuracy" : "loss"; }

 private:
  ParamNode solver_root_;  // the solver file, or what stands for one
};

// "hetero" of "models/clusters/hetero.prototxt".
std::string stem_of(const std::string& path);

}  // namespace kinet
