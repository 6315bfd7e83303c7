#include "src/sim/experiment_batch.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "src/base/build_info.h"
#include "src/base/check.h"

namespace kinet {
namespace {

using State = CellOutcome::State;

const std::atomic<bool> kNeverStop{false};

class Batch {
 public:
  Batch(const Experiment& experiment, CellRunner& runner, const BatchOptions& options,
        const std::function<void(const CellOutcome&)>& tell)
      : experiment_(experiment),
        runner_(runner),
        options_(options),
        tell_(tell),
        stop_(options.stop != nullptr ? *options.stop : kNeverStop),
        build_(build_info_line()) {}

  std::vector<CellOutcome> run(const std::vector<Cell>& cells) {
    for (const Cell& cell : cells) {
      CellOutcome outcome;
      outcome.cell = cell;
      outcomes_.push_back(std::move(outcome));
      depends_.push_back(runner_.depends(cell));
    }
    for (size_t i = 0; i < outcomes_.size() && !stop_; ++i) look_up(i);
    run_missing();
    refuse_if_all_failed();
    return std::move(outcomes_);
  }

 private:
  void look_up(size_t i) {
    CellOutcome& outcome = outcomes_[i];
    if (options_.store != nullptr) {
      auto found = options_.store->find(depends_[i]);
      if (found && (!options_.rebuild || found->build == build_)) {
        outcome.state = State::kDone;
        outcome.stored = true;
        outcome.result = std::move(*found);
        return tell_(outcome);
      }
    }
    if (options_.wanted && !options_.wanted(outcome.cell)) return tell_(outcome);
    missing_.push_back(i);
  }

  void run_missing() {
    const size_t threads =
        std::min(missing_.size(), static_cast<size_t>(std::max(options_.jobs, 1)));
    std::vector<std::thread> pool;
    for (size_t t = 1; t < threads; ++t) pool.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : pool) thread.join();
    if (broken_) std::rethrow_exception(broken_);
  }

  void work() {
    for (size_t at; !stop_ && (at = next_++) < missing_.size();) {
      CellOutcome& outcome = outcomes_[missing_[at]];
      run_one(outcome, depends_[missing_[at]]);
    }
  }

  void run_one(CellOutcome& outcome, const std::string& depends) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      outcome.result = runner_.run(outcome.cell, stop_);
      if (stop_) return;
      outcome.state = State::kDone;
    } catch (const std::exception& error) {
      if (stop_) return;
      outcome.state = State::kFailed;
      outcome.why = error.what();
    }
    const std::chrono::duration<double> real = std::chrono::steady_clock::now() - begin;
    outcome.result.real_seconds = real.count();
    outcome.result.build = build_;
    const std::lock_guard lock(mutex_);
    try {  // a full disk ends the batch, not the program
      if (outcome.state == State::kDone && options_.store != nullptr) {
        options_.store->save(depends, cell_label(experiment_, outcome.cell), outcome.result);
      }
      tell_(outcome);
    } catch (...) {
      if (!broken_) broken_ = std::current_exception();
      next_ = missing_.size();
    }
  }

  void refuse_if_all_failed() const {
    const auto failed = [](const CellOutcome& o) { return o.state == State::kFailed; };
    if (outcomes_.size() < 2 || !std::all_of(outcomes_.begin(), outcomes_.end(), failed)) return;
    fail("{}: every run of a batch failed; the first:\n{}", experiment_.path,
         outcomes_.front().why);
  }

  const Experiment& experiment_;
  CellRunner& runner_;
  const BatchOptions& options_;
  const std::function<void(const CellOutcome&)>& tell_;
  const std::atomic<bool>& stop_;
  const std::string build_;
  std::vector<CellOutcome> outcomes_;
  std::vector<std::string> depends_;
  std::vector<size_t> missing_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr broken_;
};

}  // namespace

std::vector<CellOutcome> run_cells(const Experiment& experiment, const std::vector<Cell>& cells,
                                   CellRunner& runner, const BatchOptions& options,
                                   const std::function<void(const CellOutcome&)>& tell) {
  return Batch(experiment, runner, options, tell).run(cells);
}

}  // namespace kinet
