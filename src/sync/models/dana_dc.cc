// DANA-DC: DANA-Zero whose gradients are first corrected for what is left of their delay.
//
// Server, on g of worker i:  g += lambda g g (theta - theta_hat_i)     element-wise; theta_hat_i is
//                                                                     what worker i was sent
//                            then as DANA-Zero, weight decay of theta included
// lambda = dc_lambda (2 where it is not given, the value of the authors' demonstration).
// Reference: Hakimi et al., arXiv 1907.11612, with the compensation of Zheng et al. (dc_asgd.cc).
#include "src/sync/dana_fields.h"
#include "src/sync/models/dana_zero.h"

namespace kinet {
namespace {

class DanaDcRule : public DanaZeroRule {
 public:
  DanaDcRule(bool correction, double lambda)
      : DanaZeroRule(correction), lambda_(static_cast<float>(lambda)) {}

  void apply(const RulePush& push) override {
    compensate_delay(push.values, lambda_, theta(), sent_.of(push.worker, theta()));
    DanaZeroRule::apply(push);
  }
  void sent(int worker, std::span<const float> what) override { sent_.keep(worker, what); }
  int passes() const override { return DanaZeroRule::passes() + 4 + SentCopies::kPasses; }

 private:
  float lambda_;
  SentCopies sent_;
};

class DanaDc : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"dana_dc", "dana_zero with gradients compensated for their delay"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    MomentumPush::set_up(params, setup);
    lambda_ = delay_lambda(params, kLambda);
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<DanaDcRule>(correction(), lambda_);
  }
  std::string describe() const override {
    return fmt::format("asynchronous, look-ahead of all, delay compensated, lambda {:g}", lambda_);
  }

 private:
  static constexpr double kLambda = 2;
  double lambda_ = kLambda;
};
KINET_REGISTER_SYNC(DanaDc);

}  // namespace
}  // namespace kinet
