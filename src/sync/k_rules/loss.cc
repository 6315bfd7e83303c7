// k grows as the loss falls (AdaSync).
//
// Equation:  k = round( K0 sqrt(F_first / F_now) ),  at most N
// Early gradients point the right way even when few; late ones drown in noise unless many are
// averaged. The square root belongs to rounds whose time is proportional to k.
// Reference: Dutta, Wang, Joshi, "Slow and Stale Gradients Can Win the Race", 2020. There the
// losses are of a large sample; here they are running means of the workers' training losses.
#include <cmath>

#include "src/sync/k_rule.h"

namespace kinet {
namespace {

class LossK : public KRule {
 public:
  explicit LossK(const Params& p) : first_(positive(p, "k_loss_first")) {}

  static KRuleType describe() {
    KRuleType type;
    type.name = "loss";
    type.help = "AdaSync: K0 sqrt(first loss / loss)";
    type.fields = {float_field("k_loss_first", "1", "loss: K0, the k of the first rounds")};
    return type;
  }

  KProposal propose(const KInputs& in, KTerms& terms) const override {
    if (!(in.loss_first > 0)) return {in.k};
    const double now = in.loss_now > 0 ? in.loss_now : 1e-30;
    const double k = first_ * std::sqrt(in.loss_first / now);
    terms.emplace_back("k_of_loss", k);
    return {ceil_k(std::round(k), in.live)};
  }

 private:
  double first_;  // K0
};

KINET_REGISTER_K_RULE(LossK);

}  // namespace
}  // namespace kinet
