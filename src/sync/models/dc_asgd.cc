// Delay-compensated asynchronous SGD: a gradient at old weights is moved to the newest ones by the
// first term of its Taylor series, with the diagonal of g g^T for the Hessian.
//
// Server, on g of worker i:  g += lambda g g (theta - bak_i)     bak_i: what worker i was sent
//                            theta -= v,  v = m v + eta g;  bak_i = theta, and send it
//   constant:                lambda = dc_lambda (0.04)
//   adaptive (dc_adaptive):  MS_i = a MS_i + (1 - a) g g,  lambda = dc_lambda (2) / sqrt(MS_i +
//                            1e-10) element-wise, a = dc_decay, MS_i of the worker
// The paper's update has no momentum: that is m = 0. With m the solver's momentum takes the
// compensated gradient; this is how kinet combines the two. Weight decay is added after the
// compensation, at theta.
// Reference: Zheng, Meng, Wang, Chen, Yu, Ma and Liu, "Asynchronous stochastic gradient descent
// with delay compensation", ICML 2017.
#include <cmath>

#include "src/sync/dana_fields.h"
#include "src/sync/models/momentum_push.h"

namespace kinet {
namespace {

struct DelayOptions {
  double lambda = 0.04;
  bool adaptive = false;
  double decay = 0.95;
};

class DcAsgdRule : public MomentumRule {
 public:
  DcAsgdRule(bool correction, const DelayOptions& options)
      : MomentumRule(correction), options_(options) {}

  void apply(const RulePush& push) override {
    const auto bak = sent_.of(push.worker, theta());
    if (options_.adaptive) {
      compensate(push.values, own(push.worker), bak);
    } else {
      compensate_delay(push.values, static_cast<float>(options_.lambda), theta(), bak);
    }
    add_decay(push.values);
    step(push.values, velocity(), carried(0, push), push);
  }
  void sent(int worker, std::span<const float> what) override { sent_.keep(worker, what); }
  int passes() const override {
    return kStepPasses + 4 + (options_.adaptive ? 2 : 0) + SentCopies::kPasses + decay_passes();
  }

 private:
  static constexpr float kEpsilon = 1e-10F;  // of the paper's program

  void compensate(std::span<float> g, std::span<float> square, std::span<const float> bak) const {
    const auto lambda = static_cast<float>(options_.lambda);
    const auto a = static_cast<float>(options_.decay);
    for (size_t i = 0; i < g.size(); ++i) {
      const float gg = g[i] * g[i];
      square[i] = a * square[i] + (1 - a) * gg;
      g[i] += lambda / std::sqrt(square[i] + kEpsilon) * gg * (theta()[i] - bak[i]);
    }
  }

  DelayOptions options_;
  SentCopies sent_;
};

class DcAsgd : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"dc_asgd", "as they come, compensated for their delay to first order"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    MomentumPush::set_up(params, setup);
    options_.adaptive = params.get_bool("dc_adaptive");
    options_.lambda = delay_lambda(params, options_.adaptive ? kAdaptiveLambda : kLambda);
    options_.decay = params.get_double("dc_decay");
    if (!(options_.decay >= 0 && options_.decay < 1)) {
      fail_at(params.where("dc_decay"),
              fmt::format("dc_decay must be at least 0 and below 1, got {:g}", options_.decay));
    }
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<DcAsgdRule>(correction(), options_);
  }
  std::string describe() const override {
    return fmt::format("asynchronous, delay compensated, {} lambda {:g}",
                       options_.adaptive ? "adaptive" : "constant", options_.lambda);
  }

 private:
  static constexpr double kLambda = 0.04, kAdaptiveLambda = 2;
  DelayOptions options_;
};
KINET_REGISTER_SYNC(DcAsgd);

}  // namespace
}  // namespace kinet
