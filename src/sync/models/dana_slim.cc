// DANA-Slim: DANA-Zero without vectors at the server. The look-ahead of all momenta is kept in the
// server's weights themselves, Theta = theta - m s, and every worker keeps its own momentum.
//
// Worker i: pull Theta;  g at Theta;  v = m v + eta g;  push  u = m v + eta g
// Server:   Theta -= w u                            w: weight of the push; plain SGD otherwise
// Why: DANA-Zero moves theta_hat by -v' - m (v' - v) = -(m v' + eta g), v' = m v + eta g.
// Learning rate inside of v, so this is DANA-Zero over changes of the rate as well; with momentum
// correction v' = rho m v + eta g and u = m v' + (v' - m v).
// Differences from dana_zero: tests and snapshots are of Theta. Weight decay is added at the
// worker, of the weights that it computed at. eta is that of the iteration at which the worker was
// answered. v is the worker's: it begins at zero where a run goes on, and a worker that is lost
// leaves its look-ahead in Theta. Reference: Hakimi, Barkai, Gabel, Schuster, arXiv 1907.11612.
#include <algorithm>

#include "src/sync/models/momentum_push.h"

namespace kinet {
namespace {

class DanaSlimRule : public WorkerRule {
 public:
  explicit DanaSlimRule(bool correction) : correction_(correction) {}

  void set_up(const RuleSetup& setup, size_t floats) override {
    WorkerRule::set_up(setup, floats);
    velocity_.assign(floats, 0.0F);
    carried_.set_up(setup.settings.momentum, correction_, 1);
  }
  void received(std::span<float> /*weights*/, const RuleAnswer& answer) override {
    rate_ = answer.schedule(answer.iteration);
  }
  bool step(std::span<float> /*weights*/, std::span<float> /*gradient*/, double /*loss*/,
            int64_t /*number*/) override {
    return true;
  }
  void push(std::span<const float> weights, std::span<const float> gradient,
            std::span<float> out) override {
    std::ranges::fill(out, 0.0F);  // also what lies between segments
    const float kept = carried_.at(0, rate_);
    for (const ParameterSegment& s : setup().segments)
      push_segment(s, kept, weights, gradient, out);
  }

 private:
  void push_segment(const ParameterSegment& s, float kept, std::span<const float> weights,
                    std::span<const float> gradient, std::span<float> out) {
    const OptimizerSettings& settings = setup().settings;
    const bool l1 = settings.regularization == Regularization::kL1;
    const float lambda = settings.weight_decay * s.decay_mult, m = carried_.plain();
    const auto eta = static_cast<float>(rate_ * s.lr_mult);
    for (size_t i = s.offset; i < s.offset + s.count; ++i) {
      const float w = weights[i], before = velocity_[i];
      const float sign = static_cast<float>(w > 0) - static_cast<float>(w < 0);
      const float moved = eta * (gradient[i] + lambda * (l1 ? sign : w));
      velocity_[i] = kept * before + moved;
      out[i] = m * velocity_[i] + (kept - m) * before + moved;
    }
  }

  bool correction_;
  CarriedMomentum carried_;
  double rate_ = 0;              // of the schedule
  std::vector<float> velocity_;  // v
};

class DanaSlim : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"dana_slim", "dana_zero with the momenta at the workers and none at the server"};
  }
  std::unique_ptr<WorkerRule> make_worker_rule() const override {
    return std::make_unique<DanaSlimRule>(correction());
  }
  std::string describe() const override {
    return "asynchronous, momenta at the workers, look-ahead of all";
  }

 protected:
  Use use() const override { return Use::kDifference; }
};
KINET_REGISTER_SYNC(DanaSlim);

}  // namespace
}  // namespace kinet
