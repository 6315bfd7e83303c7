// As many gradients as make their mean reliable.
//
// Equation:  k = ceil( T / (Theta^2 G2) ),  the smallest k with  E|gbar - G|^2 = T/k <= Theta^2 G2
// Reads noise only: on a cluster with stragglers it waits for them all the same.
// Reference: Byrd, Chin, Nocedal, Wu, "Sample size selection in optimization methods for machine
// learning", Math. Program. 2012 (the norm test; there for the size of a batch).
#include "src/sync/k_rules/norm_test.h"

namespace kinet {
namespace {

class NormK : public KRule {
 public:
  explicit NormK(const Params& p) : theta_(positive(p, "k_theta")) {}

  static KRuleType describe() {
    KRuleType type;
    type.name = "norm";
    type.help = "the norm test T/k <= theta^2 |G|^2";
    type.fields = {norm_theta_field()};
    return type;
  }

  KProposal propose(const KInputs& in, KTerms& terms) const override {
    return norm_test_k(in, theta_, 1, terms);
  }

 private:
  double theta_;
};

KINET_REGISTER_K_RULE(NormK);

}  // namespace
}  // namespace kinet
