// The worker's half of sapus: local steps, and when the update that they have made is worth a push.
// Our design after what the abstract of SaPus says (docs/rivals_sapus.md).
//
// With u = theta_b - theta_i the update since the last exchange, after h steps:
//   significance   r = |u| / |theta_b|
//   coherence      c = |u| / sum of the steps' lengths     1: straight on;  about 1/sqrt(h): noise
// Push when  h >= H_res  and  ( r >= delta eta / eta_0  or  c <= c_min  or  h >= H_max )
// where H_res is what the servers ask for (RuleAnswer::steps) and eta_0 the largest rate so far: a
// smaller rate makes smaller updates, that are worth as much. H_res above H_max takes its place.
// The momentum is the worker's own and kept over exchanges.
// Cost beside a step: one vector of memory, four passes over vectors.
#pragma once

#include "src/sync/local_steps.h"

namespace kinet {

struct SapusTriggers {
  double delta = 0.01, coherence = 0.3;
  int64_t most = 64;  // H_max
};

class SapusSteps : public LocalSteps {
 public:
  explicit SapusSteps(const SapusTriggers& triggers) : triggers_(triggers) {}
  void received(std::span<float> weights, const RuleAnswer& answer) override;
  bool step(std::span<float> weights, std::span<float> gradient, double loss,
            int64_t number) override;
  int64_t most_steps() const override { return triggers_.most; }

  double significance() const { return significance_; }  // r and c of the last step
  double coherence() const { return coherence_; }

 private:
  const SapusTriggers triggers_;
  std::vector<float> scratch_;
  double base_norm_ = 0, path_ = 0, top_rate_ = 0;
  double significance_ = 0, coherence_ = 1;
};

}  // namespace kinet
