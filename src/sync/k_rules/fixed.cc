// k as the file says. Equation: k = min(k of sync_param, N); 0 stands for N.
#include "src/sync/k_rule.h"

namespace kinet {
namespace {

class FixedK : public KRule {
 public:
  explicit FixedK(const Params& p) : k_(p.get_int32("k")) {}

  static KRuleType describe() {
    KRuleType type;
    type.name = "fixed";
    type.help = "field k";
    return type;
  }

  KProposal propose(const KInputs& in, KTerms&) const override {
    KProposal out;
    out.k = k_ > 0 ? k_ : in.live;
    out.exact = true;
    return out;
  }

 private:
  int k_;
};

KINET_REGISTER_K_RULE(FixedK);

}  // namespace
}  // namespace kinet
