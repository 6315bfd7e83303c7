// The quadratic synchronisation rule (Gu, Lyu, Arora, Zhang and Huang, "A Quadratic Synchronization
// Rule for Distributed Deep Learning", ICLR 2024): averages become rarer with the square of the
// rate.
//
// Equation:  H = max(H_base, floor((alpha / eta)^2))        H_base = local_steps
//            H = H_base while the rate warms up
// and no more than the iterations that are left. The paper tunes alpha (0.0175 for a ViT-B with a
// peak rate of 0.008 and H_base = 4, which is 1.1 times sqrt(H_base) times the peak).
// Ours: with qsr_alpha 0, alpha = sqrt(H_base) times the largest rate so far, so that H grows from
// H_base by the square of how far the rate has fallen. Warm-up is over at the first round whose
// rate is not above the one before. The model hears of a rate with the round that it made.
#include <cmath>

#include "src/sync/models/local_rounds.h"

namespace kinet {
namespace {

class QuadraticRule : public LocalRounds {
 public:
  static SyncType describe_type() {
    return {"qsr", "local_sgd with more steps between averages as the rate falls"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    LocalRounds::set_up(params, setup);
    set_steps(static_cast<double>(given()));
    alpha_ = params.get_double("qsr_alpha");
    if (!(alpha_ >= 0)) fail_at(params.where("qsr_alpha"), "qsr_alpha must not be negative");
  }
  std::string describe() const override {
    return fmt::format("at least {} steps between averages, more as the rate falls", given());
  }
  void measured(const RoundFacts& facts) override {
    warm_ |= last_ > 0 && facts.rate <= last_;
    last_ = facts.rate;
    top_ = std::max(top_, facts.rate);
    choose();
  }
  std::vector<double> state() const override { return {last_, top_, warm_ ? 1.0 : 0.0}; }
  void restore(const std::vector<double>& s) override {
    if (s.size() != 3) return;
    last_ = s[0];
    top_ = s[1];
    warm_ = s[2] != 0;
    choose();
  }

 private:
  void choose() {
    if (!warm_ || !(last_ > 0)) return;
    const auto least = static_cast<double>(given());
    const double alpha = alpha_ > 0 ? alpha_ : std::sqrt(least) * top_;
    // Of a rate that divides alpha, (alpha / eta)^2 may come out a little below a whole number.
    set_steps(std::max(least, std::floor(std::pow(alpha / last_, 2) * (1 + 1e-9))));
  }

  double alpha_ = 0, last_ = 0, top_ = 0;
  bool warm_ = false;  // up
};
KINET_REGISTER_SYNC(QuadraticRule);

}  // namespace
}  // namespace kinet
