#include "src/solver/round_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kinet {
namespace {

constexpr size_t kMostCurves = 6;  // workers that are shown one by one
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void grow(std::vector<double>& values, size_t size, double fill) {
  if (values.size() < size) values.resize(size, fill);
}

// The workers one by one, or, of many, the lowest, the mean and the highest.
std::vector<Series> by_worker(const std::vector<RoundBucket>& buckets,
                              const std::vector<std::vector<double>>& values) {
  size_t workers = 0;
  for (const auto& v : values) workers = std::max(workers, v.size());
  std::vector<Series> out;
  if (workers <= kMostCurves) {
    for (size_t w = 0; w < workers; ++w) out.push_back({fmt::format("worker {}", w), {}});
  } else {
    for (const char* name : {"lowest", "mean", "highest"}) out.push_back({name, {}});
  }
  for (size_t b = 0; b < buckets.size(); ++b) {
    std::vector<double> shown = values[b];
    if (workers > kMostCurves) {
      std::erase_if(shown, [](double v) { return !std::isfinite(v); });
      if (shown.empty()) continue;
      double sum = 0;
      for (const double v : shown) sum += v;
      const auto [low, high] = std::minmax_element(shown.begin(), shown.end());
      shown = {*low, sum / static_cast<double>(shown.size()), *high};
    }
    for (size_t w = 0; w < shown.size(); ++w) {
      out[w].points.emplace_back(buckets[b].iteration, shown[w]);
    }
  }
  return out;
}

// A worker tells what it has waited when its gradient comes, which may be several rounds later: the
// share is that of longer stretches.
std::vector<double> waiting_shares(const RoundBucket& bucket) {
  std::vector<double> out;
  for (const double seconds : bucket.waiting) {
    out.push_back(bucket.seconds > 0 ? std::min(100.0, 100 * seconds / bucket.seconds) : kNone);
  }
  return out;
}

std::vector<RoundBucket> stretches(const std::vector<RoundBucket>& buckets) {
  constexpr size_t kStretches = 50;
  const size_t length = (buckets.size() + kStretches - 1) / kStretches;
  std::vector<RoundBucket> out;
  for (size_t b = 0; b < buckets.size(); ++b) {
    if (b % length == 0) out.emplace_back();
    out.back().add(buckets[b]);
  }
  return out;
}

}  // namespace

void RoundBucket::add(const RoundRecord& r, double since_last) {
  ++rounds;
  iteration = r.iteration;
  seconds += since_last;
  k += r.k;
  live += r.live;
  dropped += r.dropped;
  for (const RoundRecord::Member& m : r.members) {
    if (m.how == "drop") continue;  // counted in `dropped`
    lag += m.lag;
    ++gradients;
    largest_lag = std::max(largest_lag, m.lag);
    if (m.worker < 0) continue;
    grow(rates, static_cast<size_t>(m.worker) + 1, kNone);
    rates[static_cast<size_t>(m.worker)] = m.rate;
  }
  grow(waiting, r.waiting.size(), 0);
  for (size_t w = 0; w < r.waiting.size(); ++w) waiting[w] += r.waiting[w];
}

void RoundBucket::add(const RoundBucket& later) {
  rounds += later.rounds;
  iteration = later.iteration;
  seconds += later.seconds;
  k += later.k;
  live += later.live;
  lag += later.lag;
  gradients += later.gradients;
  largest_lag = std::max(largest_lag, later.largest_lag);
  dropped += later.dropped;
  grow(waiting, later.waiting.size(), 0);
  for (size_t w = 0; w < later.waiting.size(); ++w) waiting[w] += later.waiting[w];
  grow(rates, later.rates.size(), kNone);
  for (size_t w = 0; w < later.rates.size(); ++w) {
    if (std::isfinite(later.rates[w])) rates[w] = later.rates[w];
  }
}

void RoundHistory::add(const RoundRecord& record) {
  if (buckets_.empty() || buckets_.back().rounds >= width_) {
    if (buckets_.size() == kMostBuckets) {
      for (size_t i = 0; i < kMostBuckets / 2; ++i) {
        RoundBucket pair = std::move(buckets_[2 * i]);
        pair.add(buckets_[2 * i + 1]);
        buckets_[i] = std::move(pair);
      }
      buckets_.resize(kMostBuckets / 2);
      width_ *= 2;
    }
    buckets_.emplace_back();
  }
  buckets_.back().add(record, std::max(0.0, record.seconds - last_seconds_));
  last_seconds_ = record.seconds;
}

void RoundHistory::begin(double iteration) {
  std::erase_if(buckets_, [iteration](const RoundBucket& b) { return b.iteration > iteration; });
  last_seconds_ = 0;
}

RoundBucket RoundHistory::total() const {
  RoundBucket sum;
  for (const RoundBucket& bucket : buckets_) sum.add(bucket);
  return sum;
}

std::vector<Chart> round_charts(const RoundHistory& history) {
  if (history.empty()) return {};
  const std::vector<RoundBucket>& buckets = history.buckets();
  Series k{"k", {}}, live{"workers alive", {}}, mean{"mean", {}}, largest{"largest", {}};
  Series dropped{"dropped", {}};
  live.steps = dropped.steps = true;
  std::vector<std::vector<double>> rates, waiting;
  double dropped_so_far = 0;
  for (const RoundBucket& b : buckets) {
    k.points.emplace_back(b.iteration, b.mean_k());
    live.points.emplace_back(b.iteration, b.live / static_cast<double>(b.rounds));
    mean.points.emplace_back(b.iteration, b.gradients > 0 ? b.mean_lag() : kNone);
    largest.points.emplace_back(b.iteration, b.gradients > 0 ? b.largest_lag : kNone);
    dropped_so_far += static_cast<double>(b.dropped);
    dropped.points.emplace_back(b.iteration, dropped_so_far);
    rates.push_back(b.rates);
  }
  const std::vector<RoundBucket> longer = stretches(buckets);
  for (const RoundBucket& b : longer) waiting.push_back(waiting_shares(b));
  const std::string x = "iteration";
  return {{"Gradients a round is made of (k)", x, "k", {k, live}, true},
          {"Staleness of gradients", x, "versions", {mean, largest}, true},
          {"Learning rate of each worker", x, "rate", by_worker(buckets, rates), true},
          {"Time spent waiting", x, "% of the time", by_worker(longer, waiting), true},
          {"Late gradients dropped so far", x, "gradients", {dropped}, true}};
}

}  // namespace kinet
