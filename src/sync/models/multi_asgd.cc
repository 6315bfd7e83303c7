// Asynchronous SGD with a momentum of each worker at the server, and no look-ahead: what DANA-Zero
// is without its answer, which shows what that is worth.
//
// Server, on g of worker i:  v_i = m v_i + eta g;  theta -= v_i;  send theta
// Reference: Hakimi et al., arXiv 1907.11612. With one worker it is SGD with momentum.
#include "src/sync/models/momentum_push.h"

namespace kinet {
namespace {

class MultiRule : public MomentumRule {
 public:
  using MomentumRule::MomentumRule;

  void apply(const RulePush& push) override {
    add_decay(push.values);
    step(push.values, own(push.worker), carried(push.worker, push), push);
  }
  int passes() const override { return kStepPasses + decay_passes(); }
};

class MultiAsgd : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"multi_asgd", "as they come; a momentum of each worker at the server, no look-ahead"};
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<MultiRule>(correction());
  }
  std::string describe() const override { return "asynchronous, a momentum of each worker"; }
};
KINET_REGISTER_SYNC(MultiAsgd);

}  // namespace
}  // namespace kinet
