// Method hypergradient: the rate follows its own gradient. When the new gradient points along the
// last update, a longer step would have been better; when against it, a shorter one.
//
// Equation:  log eta <- log eta + b cos(g, u),   u the last update (w_old - w_new), b =
// `sensitivity`
//   since df(w - eta d)/deta = -<g(w_new), d>. The cosine makes b independent of the scale of the
//   loss.
// It runs in every step and costs no pass. It tries nothing: a base_lr at which the first steps
// diverge is not caught, unlike by the other methods.
//
// Reference: Baydin et al., "Online learning rate adaptation with hypergradient descent", ICLR 2018
// (additive there, with the inner product).
#include <cmath>

#include "src/sync/lr_search.h"

namespace kinet {
namespace {

class Hypergradient : public LrMethod {
 public:
  using LrMethod::LrMethod;

  int64_t most_passes(bool) const override { return 0; }
  bool every_step() const override { return true; }

  double propose(LrProbe& probe, const LrNow& now) const override {
    return now.rate * std::exp(options_.sensitivity * probe.alignment());
  }
};

KINET_REGISTER_LR_METHOD(Hypergradient, "hypergradient",
                         "up while gradient and last update agree, down when they do not");

}  // namespace
}  // namespace kinet
