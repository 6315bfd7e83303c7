// Trains a problem on a cluster in virtual time: N polled workers, one clock, an event queue. The
// synchronisation model, the arithmetic of servers and workers (src/sync) are those of real runs;
// gradients are real; the time of everything is modelled by a ClusterProfile.
//
// Time of one push:  step time(s) -> the worker's link -> the server's link (incast) -> the server,
//   one push after the other -> answers over the server's link, one after the other -> the worker.
// Without servers (bsp) an all-reduce takes the place of all that.
// Determinism: same spec, same result, bit for bit, whatever the number of lanes: a gradient is
//   computed as soon as its weights are known and used when its time has come.
// Thread safety: none; one thread calls run_virtual(), which uses `lanes` more. Two runs in one
//   process are independent.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "src/sim/cluster_profile.h"
#include "src/sim/problem.h"
#include "src/solver/observer.h"
#include "src/solver/solver.h"

namespace kinet {

struct VirtualSpec {
  // sync_param, learning-rate policy, momentum, weight decay, clip_gradients, test_interval,
  // display, max_iter. Its nets are not looked at.
  std::shared_ptr<const SolverConfig> config;
  ClusterProfile cluster;
  int workers = 1;
  int64_t end = 0;           // iterations (sums of the plans' weights)
  int64_t schedule_end = 0;  // iterations that the schedule of the rate goes by; 0: end
  double max_seconds = std::numeric_limits<double>::infinity();  // virtual
  double stop_at = 2;  // test accuracy that ends the run; 2: none does
  int lanes = 1;       // threads that compute gradients
  uint64_t seed = 0;
  std::vector<double> targets;              // test accuracies whose first time is kept
  const std::atomic<bool>* stop = nullptr;  // ends the run with what there is
  bool measure_gap = true;                  // costs a pass over the weights for each push
};

struct VirtualTest {
  double seconds = 0, iteration = 0;
  int64_t samples = 0;  // of the pushes that were used
  double loss = 0, accuracy = -1;
};

struct VirtualTarget {
  double accuracy = 0;
  double seconds = -1;  // -1: not reached. The first test at or above it
  int64_t samples = -1;
};

struct VirtualResult {
  std::vector<VirtualTest> tests;
  std::vector<VirtualTarget> targets;
  double seconds = 0, iteration = 0;
  int64_t rounds = 0, pushes = 0, dropped = 0, samples = 0;
  bool diverged = false;                // a loss, push or weight that is not finite ended the run
  std::string reason;                   // why it ended
  double bytes_up = 0, bytes_down = 0;  // over all workers
  double server_seconds = 0;            // busy, over all servers
  double peak_link = 0;  // bytes a second, of the server's busier direction: largest 1 s
  double p99_link = 0, mean_link = 0;               //   window, 99th percentile of windows, mean
  double compute_seconds = 0, waiting_seconds = 0;  // over all workers
  double mean_k = 0, mean_lag = 0, max_lag = 0, mean_gap = 0;
  std::vector<float> weights;  // at the end
};

// `observer`: start, rounds, tests, displays and the end are told, with virtual seconds; may be
// null. Throws Error for a spec that cannot be run.
VirtualResult run_virtual(Problem& problem, const VirtualSpec& spec, SolverObserver* observer);

}  // namespace kinet
