// Speed times what a gradient is worth, by noise and times.
//
// Equation:  k = argmax_j  eff(j) / a_j,   eff(j) = 1 / (1 + T/(j G2))
// a_j is the time from one publication to the next when rounds wait for j gradients of their own
// weights, the server's own time included, from the what-if play of the recent step times
// (arrival_model.h). eff is the progress of one update by the mean of j gradients, relative to one
// with the true gradient. The rule takes late gradients for worth nothing, whatever becomes of
// them. Reference: Qiao et al., "Pollux", OSDI 2021 (goodput = throughput x statistical efficiency;
// there for batch sizes); this form for k is kinet's own.
#include "src/sync/k_rule.h"

namespace kinet {
namespace {

class GoodputK : public KRule {
 public:
  explicit GoodputK(const Params&) {}

  static KRuleType describe() {
    KRuleType type;
    type.name = "goodput";
    type.help = "updates per second times their worth by noise";
    return type;
  }

  KProposal propose(const KInputs& in, KTerms& terms) const override {
    if (!in.noise_known || !in.arrivals || !in.arrivals->known(in.live)) return {in.k};
    // A signal that drowns in noise: eff is proportional to j.
    const double ratio = in.signal > 0 ? in.noise / in.signal : 1e9;
    PlayOptions play = in.play;
    play.late_dropped = true;
    std::vector<KScore> scores;
    for (const int k : candidate_ks(in.live, in.k)) {
      const double seconds = in.arrivals->forecast(in.live, k, play).round_seconds;
      scores.push_back({k, 1 / (1 + ratio / k) / seconds});
    }
    const KProposal out = best_of(scores, in.k);
    terms.emplace_back("noise_ratio", ratio);
    terms.emplace_back("round_seconds", in.arrivals->forecast(in.live, out.k, play).round_seconds);
    return out;
  }
};

KINET_REGISTER_K_RULE(GoodputK);

}  // namespace
}  // namespace kinet
