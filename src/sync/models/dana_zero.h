// The rule of DANA-Zero (dana_zero.cc), on which that of DANA-DC is built (dana_dc.cc).
#pragma once

#include <vector>

#include "src/sync/models/momentum_push.h"

namespace kinet {

class DanaZeroRule : public MomentumRule {
 public:
  using MomentumRule::MomentumRule;

  void apply(const RulePush& push) override;
  void publish(std::span<float> out) const override;
  bool publishes_weights() const override { return false; }
  void forget(int worker) override;
  int passes() const override { return kStepPasses + 5 + decay_passes(); }

 private:
  // s, made of the workers' momenta at first use, so that what a snapshot gave back is in it.
  std::vector<float>& sum() const;
  mutable std::vector<float> sum_;
};

}  // namespace kinet
