// The solver: reads solver.prototxt, builds the train and test nets, and runs the loop
//   forward, backward (iter_size times) -> average -> clip -> update -> test, display, snapshot.
// Update rules are in src/optim, learning-rate policies in src/optim/lr_policy.h.
// Thread safety: one thread drives a solver; SolverControl may be written by any thread or signal
// handler. Two solvers in one process are independent.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/net/net.h"
#include "src/optim/optimizer.h"
#include "src/prototxt/fields.h"
#include "src/solver/observer.h"

namespace kinet {

class Bsp;           // src/sync/bsp.h
class Communicator;  // comm/communicator.h

// What flags add to a solver file.
struct SolverOptions {
  int threads = 0;                     // 0: all cores
  std::optional<uint64_t> seed;        // wins over random_seed
  std::optional<uint64_t> clock_seed;  // in place of the clock's, where nothing else names one
  std::string resume;                  // .solverstate to go on from
  std::vector<std::string> weights;    // .caffemodel files to copy by layer name
  std::vector<std::string> set;        // "base_lr=0.02": solver fields that win over the file
  std::string output_folder;    // run directory: snapshots with a relative prefix go below it
  int worker = 0, workers = 1;  // of the workers that train together, this is which
  double slow_factor = 1;       // with several: a gradient takes so many times as long
  // Where time is virtual: seconds that a gradient takes, in place of those it took; asked once a
  // gradient. slow_factor comes on top.
  std::function<double()> step_seconds;
  std::function<double()> now;  // the clock of all records, in seconds; empty: a steady one
  int servers = 0;              // processes that hold the weights beside the workers; 0: none
  int server = -1;              // of these, this is which; -1: this is a worker
  // Where the nets run; null: the CPU. A server runs none.
  std::shared_ptr<Device> device;
  // Servers: a run folder or metrics.jsonl whose rounds are repeated instead of deciding anew.
  std::string replay;
  double successor_timeout = 0;  // the lead, when no worker is left: seconds until one has come
};

// Wishes of the user while the loop runs; looked at after every iteration (and test batch).
struct SolverControl {
  std::atomic<bool> stop{false};      // snapshot (unless snapshot_after_train: false) and end
  std::atomic<bool> stop_now{false};  // end without a snapshot
  std::atomic<bool> snapshot{false};  // snapshot and go on; reset by the solver
};

// A solver file, checked: its own fields and every field of the nets in it.
class SolverConfig {
 public:
  // Throws Error with all that is wrong with the file and its nets.
  static std::shared_ptr<const SolverConfig> load(const std::string& path,
                                                  const std::vector<std::string>& set = {});
  static std::shared_ptr<const SolverConfig> parse(const std::string& text, const std::string& name,
                                                   const std::vector<std::string>& set = {});
  static const MessageType& fields();

  Params params() const;               // solver fields, with the --set overrides applied
  const ParamNode& train_net() const;  // prepared (load_net_file)
  NetState train_state() const;
  int test_net_count() const;
  const ParamNode& test_net(int index) const;
  NetState test_state(int index) const;
  const std::string& path() const;
  const std::vector<std::string>& notes() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// What update rules read in a solver file.
OptimizerSettings read_rule(const Params& solver);

class Solver {
 public:
  // Builds the nets, restores or loads weights, checks that snapshots can be written. What the
  // configuration, the nets and the weights have to note goes to observer.on_note() meanwhile.
  Solver(std::shared_ptr<const SolverConfig> config, const SolverOptions& options,
         SolverObserver& observer);
  ~Solver();

  // Trains together with the other workers from now on. REQUIRES: options.workers > 1, before run()
  // or step(); `bsp` outlives this solver's last call. All score a share of a
  // test; worker 0 alone tells of it and writes snapshots.
  void attach(Bsp& bsp);
  // The same through servers, as sync_param says; this one may be a server itself. REQUIRES: the
  // ranks of `comm` are servers, then workers; `comm` outlives this solver's last call.
  void attach(Communicator& comm);
  void detach();  // before the communicator ends, when this solver lives on

  // Runs to max_iter, early stop or the user's wish. Throws a run-time Error when the loss or
  // gradient is no longer finite (names iteration, layer and blob; nothing of it is applied).
  FinishRecord run(SolverControl& control);

  void step();                     // one iteration: the update only, no test, display or snapshot
  std::vector<TestRecord> test();  // all test nets, each from item 0
  std::string snapshot();          // writes .caffemodel + .solverstate; path of the latter

  int servers() const;  // SolverOptions
  bool searches_rate() const;
  int64_t iteration() const;
  uint64_t seed() const;
  const std::vector<std::string>& weights() const;  // files that it began with
  double loss() const;                              // of the last step, averaged over iter_size
  // This worker's own, found by lr_search_param along the last gradient; 1 without a search.
  double rate_multiplier() const;
  Net& train_net();
  Net& test_net(int index);
  size_t gradient_floats() const;  // of the arenas, for attach()
  size_t buffer_floats() const;
  std::span<const float> history() const;  // optimizer state, all entries

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kinet
