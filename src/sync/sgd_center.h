// Asynchronous SGD at a center, as the elastic family is compared with: pushes first come, first
// served, each of them an update of its own.
//
// Equations, w the part of an iteration that a push is (1: the full rate):
//   plain      theta <- theta - eta w g
//   momentum   V <- mu V + eta w g,   theta <- theta - V      one V, at the center
// With a solver type other than SGD and Nesterov, that type's rule at the rate eta w.
// Without the lock (Hogwild), a worker's read may miss a write that is going on. Pushes are applied
// one at a time here, so that is modelled, as its most regular case: what a worker is answered with
// misses the update before its own, if that was another worker's. No update is lost, as the
// additions are atomic by element; reads are never torn.
// Reference: You, Buluc and Demmel, SC17 (Async SGD, Async MSGD, Hogwild SGD); Niu, Recht, Re and
//   Wright, "Hogwild!", NIPS 2011.
#pragma once

#include <memory>

#include "src/sync/rule.h"

namespace kinet {

class SgdCenter : public ServerRule {
 public:
  SgdCenter(bool momentum, bool unlocked) : momentum_(momentum), unlocked_(unlocked) {}
  void set_up(const RuleSetup& setup, const RuleSlice& slice) override;
  void apply(const RulePush& push) override;
  void publish(std::span<float> out) const override;
  bool publishes_weights() const override { return !unlocked_; }
  int passes() const override { return unlocked_ ? 9 : 5; }

 private:
  const bool momentum_, unlocked_;
  std::unique_ptr<Optimizer> optimizer_;
  int64_t updates_ = 0;
  // Without the lock: what the last update took from theta, whose it was, and what the answer
  // lacks.
  std::vector<float> update_, missing_;
  int last_ = -1;
};

}  // namespace kinet
