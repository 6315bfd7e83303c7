// Runs the cells of an experiment on the virtual cluster, each on one thread.
//
// Length: `epochs` passes over the training set are epochs x items / (batch x workers) iterations;
//   where a push is an iteration (sync_param's push_weight), so many more. Every run ends with a
//   test: lengths are rounded to whole intervals between tests.
// A seed decides everything of a run: first weights, order of data, drawn times.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/sim/experiment_cell.h"

namespace kinet {

// In iterations as the strategy counts them.
struct CellLength {
  int64_t whole = 0, end = 0;  // of a whole run (schedules go by it), and of this one
  int64_t test_interval = 1;
};
// `iterations`: of a whole run, of as many gradients as there are workers; `scale`: the strategy's
// iterations in one of those; `interval`: the solver's test_interval, where `tests` is 0.
CellLength cell_length(double iterations, double scale, double part, int64_t tests,
                       int64_t interval);

class VirtualRunner : public CellRunner {
 public:
  // Builds what is trained, reads the clusters, measures how long a gradient and a test take.
  // Throws Error for what cannot be run. `experiment` outlives this.
  explicit VirtualRunner(const Experiment& experiment);

  std::string depends(const Cell& cell) override;
  double work(const Cell& cell) override;
  CellResult run(const Cell& cell, const std::atomic<bool>& stop) override;

  // For people: "LeNet, ...; a gradient takes 2.1 ms here, a test 0.4 s"
  const std::string& describe() const { return description_; }

 private:
  // Of a strategy with a number of workers.
  struct Plan {
    CellLength length;        // of a whole run
    double real_seconds = 0;  // that it should take on one core
  };
  // Of what is trained.
  struct Costs {
    int64_t batch = 1, items = 0;
    double gradient = 0, test = 0;  // real seconds
  };

  Costs measure(const std::shared_ptr<const SolverConfig>& config, int workers);
  Plan make_plan(const Params& solver, int workers, const Costs& costs) const;
  std::unique_ptr<Problem> make_problem(const std::shared_ptr<const SolverConfig>& config,
                                        int workers, uint64_t seed) const;
  const Plan& plan(const Cell& cell) const;
  CellLength length(const Cell& cell) const;
  std::shared_ptr<const SolverConfig> config(const Cell& cell) const;
  const std::string& cluster_path(const Cell& cell) const;

  const Experiment& experiment_;
  std::string description_;
  std::map<std::pair<int, int>, Plan> plans_;  // by strategy and workers
  std::map<std::string, std::string> files_;   // texts of clusters and objective, by path
};

}  // namespace kinet
