// Gap-Aware: a gradient is divided, element by element, by how many average steps the weights have
// moved since they were sent.
//
// Server, on g of worker i:  c = eta_max (sqrt(A') + 1e-8)         the average step
//                            g = g / (1 + |theta - sent_i| / c)    weight decay included
//                            v = m v + eta g;  theta -= v;  send theta
//                            A = 0.999 A + 0.001 (v / eta)^2,  A' = A / (1 - 0.999^t)
// With the rate outside of the momentum, V = v / eta, this is the published form; the weight of a
// push and lr_mult are in eta and in eta_max. eta_max is the largest rate of the schedule
// (gap_max_rate; else the largest so far), so the penalty fades as the rate decays.
// Reference: Barkai, Hakimi, Schuster, "Gap-Aware Mitigation of Gradient Staleness", ICLR 2020,
// arXiv 1909.10802.
#include <algorithm>
#include <cmath>

#include "src/sync/models/momentum_push.h"

namespace kinet {
namespace {

constexpr double kDecay = 0.999;
constexpr float kEpsilon = 1e-8F;

class GapAwareRule : public MomentumRule {
 public:
  GapAwareRule(bool correction, double max_rate) : MomentumRule(correction), max_(max_rate) {}

  void set_up(const RuleSetup& setup, const RuleSlice& slice) override {
    MomentumRule::set_up(setup, slice);
    square_.assign(slice.weights.size(), 0.0F);
  }
  void apply(const RulePush& push) override {
    if (push.rate <= 0) return;  // nothing would move, and v / eta is not defined
    largest_ = std::max(largest_, push.rate);
    add_decay(push.values);
    divide(push);
    step(push.values, velocity(), carried(0, push), push);
    measure(push);
  }
  void sent(int worker, std::span<const float> what) override { sent_.keep(worker, what); }
  int passes() const override { return kStepPasses + 5 + 3 + SentCopies::kPasses + decay_passes(); }
  std::string not_saved() const override { return "the average step of gap_aware"; }

 private:
  void divide(const RulePush& push) const {
    const auto bak = sent_.of(push.worker, theta());
    const double known = 1 - std::pow(kDecay, static_cast<double>(updates_));
    const auto unbias = static_cast<float>(updates_ > 0 ? 1 / known : 0);
    const double max = push.weight * (max_ > 0 ? max_ : largest_);
    each_segment(max, [&](size_t offset, size_t count, float eta_max) {
      if (eta_max <= 0) return;
      for (size_t i = offset; i < offset + count; ++i) {
        const float average = eta_max * (std::sqrt(square_[i] * unbias) + kEpsilon);
        push.values[i] /= 1 + std::abs(theta()[i] - bak[i]) / average;
      }
    });
  }
  void measure(const RulePush& push) {
    ++updates_;
    const auto v = velocity();
    each_segment(push.weight * push.rate, [&](size_t offset, size_t count, float eta) {
      if (eta <= 0) return;
      const auto keep = static_cast<float>(kDecay), add = static_cast<float>(1 - kDecay);
      for (size_t i = offset; i < offset + count; ++i) {
        const float step = v[i] / eta;
        square_[i] = keep * square_[i] + add * step * step;
      }
    });
  }

  double max_;  // gap_max_rate; 0: not given
  double largest_ = 0;
  int64_t updates_ = 0;
  std::vector<float> square_;  // A
  SentCopies sent_;
};

class GapAware : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"gap_aware", "as they come, divided by how far the weights have moved meanwhile"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    MomentumPush::set_up(params, setup);
    max_rate_ = params.get_double("gap_max_rate");
    if (!(max_rate_ >= 0)) {
      fail_at(params.where("gap_max_rate"),
              fmt::format("gap_max_rate must not be negative, got {:g}", max_rate_));
    }
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<GapAwareRule>(correction(), max_rate_);
  }
  std::string describe() const override { return "asynchronous, gradients divided by the gap"; }

 private:
  double max_rate_ = 0;
};
KINET_REGISTER_SYNC(GapAware);

}  // namespace
}  // namespace kinet
