// The smallest k that keeps the gap in bounds.
//
// Equation:  gap(k) = |v| lag(k) / (1 - gamma),   lag(k) = 1 - k/N  iterations
//            k = the smallest with gap(k) <= bound * reference
// The gap is how far the weights have moved between those a gradient was computed for and those it
// is applied to. N/k - 1 rounds of k/N iterations each make 1 - k/N iterations; v/(1-gamma) is the
// whole move that a momentum v still makes. The reference is the length of recent steps, or that
// of the weights. Solved:  k = ceil( N (1 - bound * reference (1-gamma) / |v|) )
// Reads momentum only: it knows neither times nor noise.
// Reference: the gap as a measure of staleness: Barkai et al., "Gap-Aware", ICLR 2020; the rule is
// kinet's own.
#include "src/sync/k_rule.h"

namespace kinet {
namespace {

class GapK : public KRule {
 public:
  explicit GapK(const Params& p)
      : bound_(positive(p, "k_gap_bound")),
        to_weights_(p.get_enum("k_gap_reference") == "weights") {}

  static KRuleType describe() {
    KRuleType type;
    type.name = "gap";
    type.help = "least k that keeps the gap |v| lag/(1 - momentum) in bounds";
    type.fields = {
        float_field("k_gap_bound", "5", "gap: largest gap, in lengths of the reference"),
        enum_field("k_gap_reference", {{"step", 0}, {"weights", 1}}, "step",
                   "gap: what the gap is compared with: the move of a recent iteration, or the "
                   "norm of all weights (then use a k_gap_bound of about 0.01)")};
    return type;
  }

  KProposal propose(const KInputs& in, KTerms& terms) const override {
    const double reference = to_weights_ ? in.weight_norm : in.step_norm;
    if (!(reference > 0) || !(in.momentum < 1)) return {in.k};
    const double gap = in.momentum_norm / (1 - in.momentum) / reference;  // of a whole iteration
    terms.emplace_back("gap_per_iteration", gap);
    if (!(gap > bound_)) return {1};
    return {ceil_k(in.live * (1 - bound_ / gap), in.live)};
  }

 private:
  double bound_;
  bool to_weights_;
};

KINET_REGISTER_K_RULE(GapK);

}  // namespace
}  // namespace kinet
