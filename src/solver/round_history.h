// What the rounds of a run with several workers came to, over its whole length in bounded memory:
// neighbouring rounds are summed into buckets, and when there are too many buckets, pairs of them
// are merged. Whoever wants every round reads metrics.jsonl.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "src/solver/chart.h"
#include "src/solver/observer.h"

namespace kinet {

struct RoundBucket {
  int64_t rounds = 0;
  double iteration = 0;  // of the last round
  double seconds = 0;    // that the rounds took
  double k = 0;          // sum over the rounds
  double live = 0;       // likewise
  double lag = 0;        // sum over the gradients
  int64_t gradients = 0;
  int largest_lag = 0;
  int64_t dropped = 0;
  std::vector<double> waiting;  // seconds, by worker
  std::vector<double> rates;    // the last one of each worker; NaN: none yet

  double mean_k() const { return rounds > 0 ? k / static_cast<double>(rounds) : 0; }
  double mean_lag() const { return gradients > 0 ? lag / static_cast<double>(gradients) : 0; }
  void add(const RoundRecord& record, double since_last);
  void add(const RoundBucket& later);
};

class RoundHistory {
 public:
  static constexpr size_t kMostBuckets = 600;

  void add(const RoundRecord& record);
  // A run begins, or goes on: what was said of rounds after `iteration` counts no longer.
  void begin(double iteration);

  bool empty() const { return buckets_.empty(); }
  const std::vector<RoundBucket>& buckets() const { return buckets_; }
  RoundBucket total() const;

 private:
  std::vector<RoundBucket> buckets_;
  int64_t width_ = 1;        // rounds a bucket
  double last_seconds_ = 0;  // of this run
};

// k, staleness, rates, waiting, dropped gradients over iterations; empty without rounds.
std::vector<Chart> round_charts(const RoundHistory& history);

}  // namespace kinet
