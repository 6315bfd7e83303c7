// Steps of a worker's own between two exchanges with the servers: local SGD and its descendants.
//
// Equation:  received   theta_b = theta_i = what the servers sent
//            H steps    theta_i -= update(g_i)     the solver's rule at the schedule's rate
//            push       d_i = theta_b - theta_i
// The history of the rule (momentum) is the worker's own and is kept over exchanges, as Stich (ICLR
// 2019) and Lin et al. (ICLR 2020) have it: a successor begins without one. The rate of step h is
// that of iteration a + h - 1 of the schedule, where a is the iteration of the answer.
// Memory: theta_b and the history, histories() + 1 vectors.
#pragma once

#include <memory>

#include "src/sync/rule.h"

namespace kinet {

class LocalSteps : public WorkerRule {
 public:
  void set_up(const RuleSetup& setup, size_t floats) override;
  void received(std::span<float> weights, const RuleAnswer& answer) override;
  bool step(std::span<float> weights, std::span<float> gradient, double loss,
            int64_t number) override;
  void push(std::span<const float> weights, std::span<const float> gradient,
            std::span<float> out) override;

 protected:
  // One step of the solver's rule; `number` of the steps since received(), from 1.
  void move(std::span<float> weights, std::span<float> gradient, int64_t number);
  double rate(int64_t number) const;
  std::span<const float> base() const { return base_; }
  const RuleAnswer& answer() const { return answer_; }

 private:
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<float> base_, history_;
  RuleAnswer answer_;
  int64_t updates_ = 0;
};

}  // namespace kinet
