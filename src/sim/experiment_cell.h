// One run of an experiment, and what came out of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "src/sim/experiment.h"
#include "src/sim/virtual_cluster.h"

namespace kinet {

// Where strategies are compared: a cluster and a number of workers.
struct Setting {
  int cluster = 0;  // of Experiment::clusters; -1: tune_cluster
  int workers = 1;
  bool operator==(const Setting&) const = default;
};

struct Cell {
  int strategy = 0;  // of Experiment::strategies
  Setting setting;
  double rate = 0;
  uint64_t seed = 0;
  double part = 1;  // of the length of a run
  bool operator==(const Cell&) const = default;
};

struct CellResult {
  VirtualResult run;  // without weights
  double real_seconds = 0;
  std::string build;  // build_info_line() of the program that made it
};

// Makes results. run() may be called by several threads at once; all else by one.
class CellRunner {
 public:
  virtual ~CellRunner() = default;
  // Everything that the result depends on, as text: it is the key that results are kept under.
  virtual std::string depends(const Cell& cell) = 0;
  // Real seconds that it takes on one core, roughly; or something proportional to them.
  virtual double work(const Cell& cell) = 0;
  // `stop`: give up; the result is thrown away. Throws Error for a cell that cannot be run.
  virtual CellResult run(const Cell& cell, const std::atomic<bool>& stop) = 0;
};

std::string cluster_name(const Experiment& experiment, int cluster);
// "hetero, 16 workers"
std::string setting_label(const Experiment& experiment, const Setting& setting);
// "asp, hetero, 16 workers, base_lr 0.1, seed 11", and ", 25 % of the run" of a shortened one.
std::string cell_label(const Experiment& experiment, const Cell& cell);

// Accuracy or loss of a test.
double score_of(const VirtualTest& test, Measure measure);
// Mean over the last `final_tests` tests; nothing for a run that diverged or was not tested.
std::optional<double> final_score(const VirtualResult& run, const Experiment& experiment);
// The first test that is at least as good as `target`.
std::optional<VirtualTest> first_reaching(const VirtualResult& run, double target, Measure measure);
// The target that a strategy's final figure gives: so far below it (of losses: above it).
double derived_target(const Experiment& experiment, double final_figure);

}  // namespace kinet
