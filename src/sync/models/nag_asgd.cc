// Asynchronous SGD with one Nesterov momentum at the server for all workers.
//
// Server, on g of worker i:  v = m v + eta g;  theta -= v;  send theta - m v
// The look-ahead is that of one update, while N of them come before the worker's next one.
// A baseline of Hakimi, Barkai, Gabel and Schuster, "Taming Momentum in a Distributed Asynchronous
// Environment" (DANA), arXiv 1907.11612. With one worker it is Nesterov's rule.
#include "src/math/vec.h"
#include "src/sync/models/momentum_push.h"

namespace kinet {
namespace {

class NagRule : public MomentumRule {
 public:
  using MomentumRule::MomentumRule;

  void apply(const RulePush& push) override {
    add_decay(push.values);
    step(push.values, velocity(), carried(0, push), push);
  }
  void publish(std::span<float> out) const override {
    ServerRule::publish(out);
    vec().axpy(static_cast<int64_t>(out.size()), -momentum(), velocity().data(), out.data());
  }
  bool publishes_weights() const override { return false; }
  int passes() const override { return kStepPasses + 3 + decay_passes(); }
};

class NagAsgd : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"nag_asgd", "as they come; one Nesterov momentum of all workers at the server"};
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<NagRule>(correction());
  }
  std::string describe() const override { return "asynchronous, one momentum, look-ahead of one"; }
};
KINET_REGISTER_SYNC(NagAsgd);

}  // namespace
}  // namespace kinet
