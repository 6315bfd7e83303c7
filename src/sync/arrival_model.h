// What would happen if rounds waited for k gradients: the recent step times of the workers, played
// once more on a virtual cluster.
//
// A step time is what passes from the arrival of the weights at a worker to the arrival of its
// gradient at the server. The last `window` of each worker are kept. The play for one k:
//   - every worker computes; gradients that arrive are served in order, `per_gradient` seconds each
//   - a worker whose gradient counts waits until the round has k of them; then the server publishes
//     (`per_round` seconds) and those that wait begin the next step. The others keep computing.
//   - with `late_dropped`, only gradients of the round's own weights count, and the worker of a
//     late one goes on at once with the current weights.
// The first three steps of an average worker are played and not counted, because all workers begin
// together, which is not their usual state. Then twelve are.
//
// By Little's law a counted gradient of the first form is on average N/k - 1 rounds late.
//
// Times repeat: every worker goes through its samples again and again, from another place each
// time; the place is a Philox word of (worker, pass), so that a play is a pure function of the
// samples, and small changes of them make small changes of the outcome.
//
// Cost: about 15 N events for a k, some 50 nanoseconds each: 0.1 ms for all candidates of
// N = 16, 0.4 ms for N = 32, 1.3 ms for N = 64.
//
// Thread safety: none, its owner's thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace kinet {

// What the server itself costs.
struct ServiceTime {
  double per_gradient = 0, per_round = 0;  // seconds
};

struct Forecast {
  double throughput = 0;     // gradients that count, per second; 0: nothing is known
  double round_seconds = 0;  // from one publication to the next
  double lag = 0;            // rounds that a counted gradient is late, on average
  std::vector<double> late;  // [r]: share of the counted gradients that are r rounds late
};

struct PlayOptions {
  ServiceTime service;
  bool late_dropped = false;
};

class ArrivalModel {
 public:
  explicit ArrivalModel(int window = 8);

  // A step of `worker` took so long. Times that are not finite or not positive are ignored.
  void add(int worker, double seconds);
  void remove(int worker) { steps_.erase(worker); }
  int workers() const { return static_cast<int>(steps_.size()); }  // with a time at least
  // Half of the workers have shown a time; the rest count as slow as the slowest of them.
  bool known(int live) const { return 2 * workers() >= live && workers() > 0; }

  // The play for rounds of k of `live` workers. REQUIRES: 1 <= k <= live
  Forecast forecast(int live, int k, const PlayOptions& options) const;

  // For snapshots.
  std::vector<double> state() const;
  void restore(std::span<const double> state);

 private:
  using Samples = std::vector<double>;  // oldest first
  std::vector<Samples> samples_of(int live) const;

  int window_;
  std::map<int, Samples> steps_;
};

// A cluster for rules that shall not look at times: workers alike, with exponential step times of
// mean one second (the usual assumption of theory), as quantiles.
ArrivalModel exponential_workers(int workers);

}  // namespace kinet
