// Linear weight prediction: one momentum at the server, and workers compute where it will have
// carried the weights by the time they push.
//
// Server, on g of worker i:  v = m v + eta g;  theta -= v;  send theta - a v
//   a = tau                              lwp_lag updates (0: one of each worker) at today's
//   velocity a = (m - m^(tau+1)) / (1 - m)        lwp_damped: of a velocity that only decays
//   meanwhile
// Source: Kosson, Chiley, Venigalla, Hestness and Koester, "Pipelined backpropagation at scale"
// (MLSys 2021), as a baseline of DANA (arXiv 1907.11612). The damped form is from pipelined
// training too. tau = 1, damped, is nag_asgd.
#include "src/math/vec.h"
#include "src/sync/models/momentum_push.h"

namespace kinet {
namespace {

class LwpRule : public MomentumRule {
 public:
  LwpRule(bool correction, int64_t lag, bool damped)
      : MomentumRule(correction), lag_(lag), damped_(damped) {}

  void set_up(const RuleSetup& setup, const RuleSlice& slice) override {
    MomentumRule::set_up(setup, slice);
    const int64_t lag = lag_ > 0 ? lag_ : setup.workers;
    double ahead = 0, power = 1;
    for (int64_t i = 0; i < lag; ++i) ahead += power *= damped_ ? setup.settings.momentum : 1;
    ahead_ = static_cast<float>(ahead);
  }
  void apply(const RulePush& push) override {
    add_decay(push.values);
    step(push.values, velocity(), carried(0, push), push);
  }
  void publish(std::span<float> out) const override {
    ServerRule::publish(out);
    vec().axpy(static_cast<int64_t>(out.size()), -ahead_, velocity().data(), out.data());
  }
  bool publishes_weights() const override { return false; }
  int passes() const override { return kStepPasses + 3 + decay_passes(); }

 private:
  int64_t lag_;
  bool damped_;
  float ahead_ = 0;  // a
};

class Lwp : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"lwp", "as they come; workers compute at weights predicted linearly from the momentum"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    MomentumPush::set_up(params, setup);
    lag_ = params.get_int("lwp_lag");
    damped_ = params.get_bool("lwp_damped");
    if (lag_ > kMostLag) {
      fail_at(params.where("lwp_lag"),
              fmt::format("lwp_lag must be at most {}, got {}\nhint: about "
                          "the number of workers",
                          kMostLag, lag_));
    }
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<LwpRule>(correction(), lag_, damped_);
  }
  std::string describe() const override {
    return fmt::format("asynchronous, weights predicted {} updates ahead{}",
                       lag_ > 0 ? lag_ : setup().workers, damped_ ? ", damped" : "");
  }

 private:
  static constexpr int64_t kMostLag = 1000000;
  int64_t lag_ = 0;
  bool damped_ = false;
};
KINET_REGISTER_SYNC(Lwp);

}  // namespace
}  // namespace kinet
