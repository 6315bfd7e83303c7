// k grows when the gradients stop agreeing with each other.
//
// Equation, after every round, with p = <gbar_t, gbar_{t-1}>:
//   c <- c + 1 if p < 0, else c - 1
//   if c > threshold and round > burn_in:  k <- min(k + step, N),  c <- 0
// Successive gradients of opposite sign are the mark of SGD's stationary phase, in which only less
// noise helps (Pflug's statistic). k never falls.
// Reference: Kas Hanna et al., "Adaptive distributed stochastic gradient descent for minimizing
// delay in the presence of stragglers", ICASSP 2020. Their example has 50 workers, k from 10 in
// steps of 10: hence a fifth of the workers for both.
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/sync/k_rule.h"

namespace kinet {
namespace {

constexpr int kShare = 5;  // start and step are a fifth of the workers unless given

class SignK : public KRule {
 public:
  explicit SignK(const Params& p)
      : start_(p.get_int32("k")),
        threshold_(p.get_int32("k_sign_threshold")),
        burn_in_(p.get_int32("k_sign_burn_in")),
        step_(p.get_int32("k_sign_step")) {}

  static KRuleType describe() {
    KRuleType type;
    type.name = "sign";
    type.help = "a larger k when successive gradients disagree";
    type.fields = {
        uint_field("k_sign_threshold", "10",
                   "sign: k grows when so many more rounds disagreed than agreed"),
        uint_field("k_sign_burn_in", "20", "sign: rounds at the start in which k does not grow"),
        uint_field("k_sign_step", "0", "sign: by how much k grows; 0: a fifth of the workers")};
    return type;
  }

  bool needs_product() const override { return true; }

  void observe(const KInputs& in) override {
    const int fifth = std::max(1, in.live / kShare);
    if (k_ == 0) k_ = start_ > 0 ? start_ : fifth;
    if (!in.product_known) return;
    count_ += in.product < 0 ? 1 : -1;
    if (count_ <= threshold_ || in.round <= burn_in_) return;
    k_ = std::min(k_ + (step_ > 0 ? step_ : fifth), in.live);
    count_ = 0;
  }

  KProposal propose(const KInputs& in, KTerms& terms) const override {
    terms.emplace_back("disagreements", count_);
    KProposal out;
    out.k = std::clamp(k_, 1, in.live);
    out.exact = true;
    return out;
  }

  std::vector<double> state() const override { return {1.0 * k_, 1.0 * count_}; }
  void restore(std::span<const double> state) override {
    KINET_CHECK(state.size() == 2, "the saved state of k_rule sign has {} numbers, not 2",
                state.size());
    k_ = static_cast<int>(state[0]);
    count_ = static_cast<int>(state[1]);
  }

 private:
  int start_, threshold_, burn_in_, step_;
  int k_ = 0;  // 0: no round yet
  int count_ = 0;
};

KINET_REGISTER_K_RULE(SignK);

}  // namespace
}  // namespace kinet
