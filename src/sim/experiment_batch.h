// A list of cells: those that lie in the store are taken from there, the others are run by several
// threads and put there.
//
// Results do not depend on the number of threads, nor on the order in which cells end.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "src/sim/experiment_cell.h"
#include "src/sim/experiment_store.h"

namespace kinet {

struct CellOutcome {
  enum class State { kDone, kFailed, kNotRun };
  Cell cell;
  State state = State::kNotRun;
  bool stored = false;  // it lay in the store
  CellResult result;    // kDone
  std::string why;      // kFailed: the error

  // It counts neither as reached nor in a mean.
  bool bad() const { return state != State::kDone || result.run.diverged; }
};

struct BatchOptions {
  int jobs = 1;                             // threads
  const CellStore* store = nullptr;         // null: nothing is kept
  bool rebuild = false;                     // results of another build are made anew
  std::function<bool(const Cell&)> wanted;  // others are taken from the store or not at all
  const std::atomic<bool>* stop = nullptr;  // cells under way are given up
};

// Outcomes in the order of `cells`. `tell` is called for each that is done, failed or left out, by
// any thread, one at a time. Throws the first cell's Error when every one of several cells failed.
// When *stop becomes true, the rest is kNotRun.
std::vector<CellOutcome> run_cells(const Experiment& experiment, const std::vector<Cell>& cells,
                                   CellRunner& runner, const BatchOptions& options,
                                   const std::function<void(const CellOutcome&)>& tell);

}  // namespace kinet
