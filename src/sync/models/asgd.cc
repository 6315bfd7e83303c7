// Asynchronous SGD without momentum: every gradient is applied as it comes, by nothing but its
// rate.
//
// Server, on g of worker i:  theta -= eta g;  send theta
// The solver's momentum is left out; `asp` is the same with the solver's rule and momentum.
// Reference: Dean et al., "Large scale distributed deep networks" (Downpour SGD), NIPS 2012.
#include "src/math/vec.h"
#include "src/sync/models/momentum_push.h"

namespace kinet {
namespace {

class AsgdRule : public ServerRule {
 public:
  void apply(const RulePush& push) override {
    add_decay(push.values);
    each_segment(push.weight * push.rate, [&](size_t offset, size_t count, float eta) {
      vec().axpy(static_cast<int64_t>(count), -eta, push.values.data() + offset,
                 theta().data() + offset);
    });
  }
};

class Asgd : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"asgd", "gradients are applied as they come, without momentum"};
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<AsgdRule>();
  }
  std::string describe() const override {
    if (setup().momentum == 0) return "asynchronous SGD";
    return fmt::format("asynchronous SGD; momentum {:g} is not used", setup().momentum);
  }
};
KINET_REGISTER_SYNC(Asgd);

}  // namespace
}  // namespace kinet
