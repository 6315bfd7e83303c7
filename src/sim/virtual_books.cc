#include "src/sim/virtual_books.h"

#include <algorithm>
#include <cmath>

namespace kinet {
namespace {

constexpr size_t kMostWaitingShown = 64;  // workers: a record a push with a number of each is long

}  // namespace

void VirtualBooks::start(const Problem& problem, const std::string& policy, const std::string& type,
                         size_t floats) {
  batch_ = problem.batch_size();
  items_ = problem.items();
  if (observer_ == nullptr) return;
  StartRecord r;
  r.net_name = problem.describe();
  r.solver_type = type;
  r.lr_policy = policy;
  r.seed = spec_.seed;
  r.threads = 1;
  r.max_iterations = spec_.end;
  r.parameters = static_cast<int64_t>(floats);
  r.batch = batch_;
  r.train_items = items_;
  r.workers = spec_.workers;
  if (items_ > 0 && batch_ > 0) {
    r.iterations_per_epoch =
        static_cast<double>(items_) / static_cast<double>(batch_ * spec_.workers);
  }
  r.history = "empty";
  observer_->on_start(r);
}

void VirtualBooks::round(RoundRecord record, int64_t samples_used, int64_t members) {
  ++result.rounds;
  result.pushes += members;
  result.dropped += record.dropped;
  result.samples += samples_used;
  k_sum_ += record.k;
  for (const RoundRecord::Member& m : record.members) {
    if (m.how == "drop") continue;
    ++members_;
    lag_sum_ += m.lag;
    result.max_lag = std::max(result.max_lag, static_cast<double>(m.lag));
  }
  loss_ = record.loss;
  if (observer_ == nullptr) return;
  if (waiting_.size() <= kMostWaitingShown) record.waiting = waiting_;
  std::fill(waiting_.begin(), waiting_.end(), 0.0);
  observer_->on_round(record);
}

void VirtualBooks::display(int64_t iteration, double seconds, double loss, double rate,
                           double norm) {
  if (observer_ == nullptr) return;
  DisplayRecord r;
  r.iteration = iteration;
  r.seconds = seconds;
  r.loss = loss;
  r.learning_rate = rate;
  r.gradient_norm = norm;
  r.since_last = iteration - shown_;
  r.seconds_since_last = seconds - shown_at_;
  if (r.seconds_since_last > 0) {
    r.iterations_per_second = static_cast<double>(r.since_last) / r.seconds_since_last;
    r.images_per_second =
        static_cast<double>(result.samples - shown_samples_) / r.seconds_since_last;
  }
  if (items_ > 0) r.epoch = static_cast<double>(result.samples) / static_cast<double>(items_);
  shown_ = iteration;
  shown_at_ = seconds;
  shown_samples_ = result.samples;
  observer_->on_display(r);
}

void VirtualBooks::test(double seconds, double iteration, const ProblemScore& score) {
  result.tests.push_back({seconds, iteration, result.samples, score.loss, score.accuracy});
  for (VirtualTarget& t : result.targets) {
    if (t.seconds >= 0 || score.accuracy < t.accuracy) continue;
    t.seconds = seconds;
    t.samples = result.samples;
  }
  if (observer_ == nullptr) return;
  TestRecord r;
  r.iteration = static_cast<int64_t>(iteration);
  r.loss = score.loss;
  if (score.accuracy >= 0) r.outputs.push_back({"accuracy", score.accuracy, 0});
  r.outputs.push_back({"loss", score.loss, 1});
  r.at = seconds;
  observer_->on_test(r);
}

void VirtualBooks::moved(double at, uint64_t bytes, bool up) {
  (up ? result.bytes_up : result.bytes_down) += static_cast<double>(bytes);
  (up ? up_ : down_)[static_cast<int64_t>(at)] += static_cast<double>(bytes);
}

// (N - 1) / N of the bytes from each of N workers: parts of the sums, then the sums.
void VirtualBooks::all_reduced(int workers, uint64_t bytes) {
  all_reduced_ += std::max(0, workers - 1) * static_cast<double>(bytes);
}

void VirtualBooks::waited(int worker, double seconds) {
  waiting_[worker] += seconds;
  result.waiting_seconds += seconds;
}

// Of the direction that carries more. Seconds without a byte count.
void VirtualBooks::link_statistics(double seconds) {
  const auto& busier = result.bytes_up >= result.bytes_down ? up_ : down_;
  const double total = std::max(result.bytes_up, result.bytes_down);
  if (seconds > 0) result.mean_link = total / seconds;
  std::vector<double> windows(static_cast<size_t>(std::max(1.0, std::ceil(seconds))));
  for (const auto& [second, bytes] : busier) {
    windows[std::min(windows.size() - 1, static_cast<size_t>(second))] += bytes;
  }
  std::sort(windows.begin(), windows.end());
  result.peak_link = windows.back();
  result.p99_link = windows[static_cast<size_t>(0.99 * static_cast<double>(windows.size() - 1))];
}

void VirtualBooks::finish(double seconds, double iteration, const std::string& reason) {
  result.seconds = seconds;
  result.iteration = iteration;
  result.reason = reason;
  if (result.rounds > 0) result.mean_k = k_sum_ / static_cast<double>(result.rounds);
  if (members_ > 0) result.mean_lag = lag_sum_ / static_cast<double>(members_);
  if (gaps_ > 0) result.mean_gap = gap_sum_ / static_cast<double>(gaps_);
  link_statistics(seconds);
  result.bytes_up += all_reduced_;
  result.bytes_down += all_reduced_;
  if (observer_ == nullptr) return;
  FinishRecord r;
  r.iteration = static_cast<int64_t>(iteration);
  r.seconds = seconds;
  r.loss = loss_;
  r.reason = reason;
  observer_->on_finish(r);
}

}  // namespace kinet
