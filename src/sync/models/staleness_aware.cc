// Staleness-aware asynchronous SGD: a gradient that is tau versions late moves by 1 / tau.
//
// Server, on g of worker i, lag tau:  v = m v + eta / max(1, tau) g;  theta -= v;  send theta
// tau counts the updates between the weights that g was computed at and now, about N - 1 with N
// equal workers; so with the usual weight 1/N of a push the steps are small: `push_weight: 1` is
// the paper's. Its momentum is left open; kinet uses the solver's, on the scaled gradient.
// Reference: Zhang, Gupta, Lian and Liu, "Staleness-aware async-SGD for distributed deep learning",
// IJCAI 2016, arXiv 1511.05950 (there an update is made of one or of several gradients: here one).
#include <algorithm>

#include "src/sync/models/momentum_push.h"

namespace kinet {
namespace {

class StalenessAwareRule : public MomentumRule {
 public:
  using MomentumRule::MomentumRule;

  void apply(const RulePush& push) override {
    add_decay(push.values);
    step(push.values, velocity(), carried(0, push), push, 1.0 / std::max(1, push.lag));
  }
  int passes() const override { return kStepPasses + decay_passes(); }
};

class StalenessAware : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"staleness_aware", "as they come, at a rate divided by their lag"};
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<StalenessAwareRule>(correction());
  }
  std::string describe() const override { return "asynchronous, rates divided by the lag"; }
};
KINET_REGISTER_SYNC(StalenessAware);

}  // namespace
}  // namespace kinet
