#include "src/sync/arrival_model.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/event_queue.h"
#include "src/base/rng.h"

namespace kinet {
namespace {

constexpr int kWarmUpSteps = 3;            // steps of an average worker that are not counted
constexpr int kCountedSteps = 12;          // and those that are: all eight samples, some twice
constexpr int kLeastRounds = 6;            // at least so many rounds are counted, for k near N
constexpr uint64_t kPlayKey = 0x706c6179;  // any constant: the play has no seed of its own

// One play of the cluster. Workers are 0 .. N-1 here.
class Play {
 public:
  Play(const std::vector<std::vector<double>>& samples, int k, const PlayOptions& options)
      : samples_(samples),
        k_(k),
        options_(options),
        places_(samples.size()),
        begun_(samples.size()) {
    for (size_t worker = 0; worker < samples.size(); ++worker) begin(worker, 0);
  }

  Forecast run() {
    const int64_t n = static_cast<int64_t>(samples_.size());
    const int64_t warm_up = std::max<int64_t>(1, kWarmUpSteps * n / k_);
    const int64_t rounds = std::max<int64_t>(kLeastRounds, kCountedSteps * n / k_);
    for (int64_t i = 0; i < warm_up; ++i) round();
    const double from = published_;
    late_.clear();
    for (int64_t i = 0; i < rounds; ++i) round();
    Forecast out;
    const double seconds = published_ - from, count = static_cast<double>(rounds);
    out.round_seconds = seconds / count;
    out.throughput = seconds > 0 ? count * k_ / seconds : 0;
    for (size_t r = 0; r < late_.size(); ++r) {
      out.late.push_back(static_cast<double>(late_[r]) / (count * k_));
      out.lag += out.late[r] * static_cast<double>(r);
    }
    return out;
  }

 private:
  // Where a worker is in its samples: the next one, and how many are left of this pass.
  struct Place {
    size_t next = 0, left = 0;
    uint32_t pass = 0;
  };

  void begin(size_t worker, double now) {
    begun_[worker] = version_;
    arrivals_.push(now + next_step(worker), worker);
  }

  // Each pass goes through all samples once, from a place that depends on worker and pass.
  double next_step(size_t worker) {
    const std::vector<double>& samples = samples_[worker];
    Place& place = places_[worker];
    if (place.left == 0) {
      place.left = samples.size();
      const uint32_t word =
          philox4x32({place.pass++, static_cast<uint32_t>(worker), 0, 0}, kPlayKey)[0];
      place.next = word % samples.size();
    }
    --place.left;
    if (place.next == samples.size()) place.next = 0;
    return samples[place.next++];
  }

  void round() {
    waiting_.clear();
    while (static_cast<int>(waiting_.size()) < k_) {
      const double now = arrivals_.next_time();
      const size_t worker = arrivals_.pop();
      server_free_ = std::max(server_free_, now) + options_.service.per_gradient;
      if (options_.late_dropped && begun_[worker] < version_) {
        begin(worker, server_free_);
        continue;
      }
      const auto lag = static_cast<size_t>(version_ - begun_[worker]);
      if (lag >= late_.size()) late_.resize(lag + 1);
      ++late_[lag];
      waiting_.push_back(worker);
    }
    server_free_ += options_.service.per_round;
    published_ = server_free_;
    ++version_;
    for (const size_t worker : waiting_) begin(worker, published_);
  }

  const std::vector<std::vector<double>>& samples_;
  const int k_;
  const PlayOptions& options_;
  EventQueue<size_t> arrivals_;
  std::vector<Place> places_;    // by worker
  std::vector<int64_t> begun_;   // by worker: version of the weights it computes with
  std::vector<size_t> waiting_;  // for the next publication
  std::vector<int64_t> late_;    // gradients by the rounds they were late
  int64_t version_ = 0;
  double server_free_ = 0, published_ = 0;
};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

ArrivalModel::ArrivalModel(int window) : window_(window) {
  KINET_CHECK(window >= 1, "step times are kept for {} steps; at least one is needed", window);
}

void ArrivalModel::add(int worker, double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) return;
  Samples& samples = steps_[worker];
  if (static_cast<int>(samples.size()) == window_) samples.erase(samples.begin());
  samples.push_back(seconds);
}

// Of the workers with times at most `live`; those without get the times of the slowest.
std::vector<ArrivalModel::Samples> ArrivalModel::samples_of(int live) const {
  std::vector<Samples> out;
  size_t slowest = 0;
  for (const auto& [worker, samples] : steps_) {
    if (static_cast<int>(out.size()) == live) break;
    out.push_back(samples);
    if (mean(samples) > mean(out[slowest])) slowest = out.size() - 1;
  }
  while (!out.empty() && static_cast<int>(out.size()) < live) out.push_back(Samples(out[slowest]));
  return out;
}

Forecast ArrivalModel::forecast(int live, int k, const PlayOptions& options) const {
  KINET_CHECK(k >= 1 && k <= live, "a forecast for rounds of {} of {} workers", k, live);
  const std::vector<Samples> samples = samples_of(live);
  if (samples.empty()) return {};
  return Play(samples, k, options).run();
}

// [ worker, number of samples, samples ... ] for each worker.
std::vector<double> ArrivalModel::state() const {
  std::vector<double> out;
  for (const auto& [worker, samples] : steps_) {
    out.push_back(worker);
    out.push_back(static_cast<double>(samples.size()));
    out.insert(out.end(), samples.begin(), samples.end());
  }
  return out;
}

void ArrivalModel::restore(std::span<const double> state) {
  steps_.clear();
  for (size_t i = 0; i < state.size();) {
    KINET_CHECK(i + 1 < state.size() && state[i + 1] >= 0 &&
                    state[i + 1] <= static_cast<double>(state.size() - i - 2),
                "the saved step times of workers are not complete");
    const int worker = static_cast<int>(state[i]);
    const auto n = static_cast<size_t>(state[i + 1]);
    for (size_t j = 0; j < n; ++j) add(worker, state[i + 2 + j]);
    i += 2 + n;
  }
}

ArrivalModel exponential_workers(int workers) {
  constexpr int kQuantiles = 8;
  constexpr int kOrder[kQuantiles] = {0, 4, 2, 6, 1, 5, 3, 7};  // short and long ones mixed
  double raw[kQuantiles], sum = 0;
  for (int i = 0; i < kQuantiles; ++i)
    sum += raw[i] = -std::log(1 - (kOrder[i] + 0.5) / kQuantiles);
  ArrivalModel out(kQuantiles);
  for (int worker = 0; worker < workers; ++worker) {
    for (const double value : raw) out.add(worker, value * kQuantiles / sum);
  }
  return out;
}

}  // namespace kinet
