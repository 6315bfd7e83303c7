// What models have in common whose workers average their weights now and then: local SGD and those
// that vary the number of steps between two averages.
//
// Equation:  H steps of the worker's own (src/sync/local_steps.h), then theta -= (1/N) sum_i d_i,
// which is the mean of the workers' weights. A round counts as H iterations.
#pragma once

#include <algorithm>

#include "src/sync/local_steps.h"
#include "src/sync/models/counted_rounds.h"

namespace kinet {

class LocalRounds : public CountedRounds {
 public:
  void set_up(const Params& params, const SyncSetup& setup) override {
    CountedRounds::set_up(params, setup);
    steps_ = given_ = params.get_int("local_steps");
    if (given_ < 1) fail_at(params.where("local_steps"), "local_steps must be at least 1");
    most_ = params.get_int("local_steps_max");
  }
  int64_t local_steps() const override { return steps_; }
  std::unique_ptr<WorkerRule> make_worker_rule() const override {
    return std::make_unique<LocalSteps>();
  }

 protected:
  RoundRule rule() const override { return {}; }
  Use use() const override { return Use::kDifference; }
  std::optional<Plan> decide(double now) override {
    std::optional<Plan> plan = CountedRounds::decide(now);
    if (plan && plan->applies()) {
      plan->terms.emplace_back("local_steps", static_cast<double>(steps_));
    }
    return plan;
  }
  int64_t given() const { return given_; }  // local_steps of the file
  // H of the answers from now on: at least 1, at most local_steps_max.
  void set_steps(double steps) {
    const double most = most_ > 0 ? static_cast<double>(most_) : 1e9;
    steps_ = static_cast<int64_t>(std::clamp(steps, 1.0, most));
  }

 private:
  int64_t given_ = 8, steps_ = 8, most_ = 0;
};

}  // namespace kinet
