// Speed against lag, with a constant price of lag.
//
// Equation:  k = argmax_j  throughput(j) / (1 + c (N/j - 1))
// throughput(j) in gradients a second comes from the what-if play of the recent step times
// (arrival_model.h); N/j - 1 is the mean lag of a gradient in rounds; c the share of its worth that
// a gradient loses with each round it is late.
// Reference: kinet's own; c = 0.04 was found in a prototype at momentum 0.9 (docs/k_rules.md).
#include "src/sync/k_rule.h"

namespace kinet {
namespace {

class GoodputLagK : public KRule {
 public:
  explicit GoodputLagK(const Params& p) : cost_(positive(p, "k_lag_cost")) {}

  static KRuleType describe() {
    KRuleType type;
    type.name = "goodput_lag";
    type.help = "gradients per second over 1 + c x their lag in rounds";
    type.fields = {float_field(
        "k_lag_cost", "0.04",
        "goodput_lag: c, the share of its worth that a gradient loses with each round it is late")};
    return type;
  }

  KProposal propose(const KInputs& in, KTerms& terms) const override {
    if (!in.arrivals || !in.arrivals->known(in.live)) return {in.k};
    std::vector<KScore> scores;
    for (const int k : candidate_ks(in.live, in.k)) {
      const double lag = static_cast<double>(in.live) / k - 1;
      const double speed = in.arrivals->forecast(in.live, k, in.play).throughput;
      scores.push_back({k, speed / (1 + cost_ * lag)});
    }
    const KProposal out = best_of(scores, in.k);
    terms.emplace_back("throughput", in.arrivals->forecast(in.live, out.k, in.play).throughput);
    terms.emplace_back("lag", static_cast<double>(in.live) / out.k - 1);
    return out;
  }

 private:
  double cost_;  // c
};

KINET_REGISTER_K_RULE(GoodputLagK);

}  // namespace
}  // namespace kinet
