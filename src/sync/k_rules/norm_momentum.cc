// The norm test asked of the momentum instead of the round's mean.
//
// Equation:  k = ceil( (1-gamma)/(1+gamma) * T / (Theta^2 G2) )
// (1-gamma) v is a mean of the last rounds' gradients; while the true gradient stands still, its
// variance is (1-gamma)/(1+gamma) of one round's: a nineteenth at gamma = 0.9.
// Reference: the norm test as in norm.cc; the factor is the variance of an exponential average.
#include "src/sync/k_rules/norm_test.h"

namespace kinet {
namespace {

class NormMomentumK : public KRule {
 public:
  explicit NormMomentumK(const Params& p) : theta_(positive(p, "k_theta")) {}

  static KRuleType describe() {
    KRuleType type;
    type.name = "norm_momentum";
    type.help = "the norm test, of the momentum";
    type.fields = {norm_theta_field()};
    return type;
  }

  KProposal propose(const KInputs& in, KTerms& terms) const override {
    return norm_test_k(in, theta_, (1 - in.momentum) / (1 + in.momentum), terms);
  }

 private:
  double theta_;
};

KINET_REGISTER_K_RULE(NormMomentumK);

}  // namespace
}  // namespace kinet
