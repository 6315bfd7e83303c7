// RMSProp: AdaGrad with a memory that fades.
//
// Equation:  h = d h + (1 - d) g^2        d = rms_decay
//            w = w - eta g / (sqrt(h) + delta)
// History: h. There is no momentum: a solver file that sets one is refused.
// Reference: Tieleman, Hinton, "Lecture 6.5: rmsprop", Coursera 2012.
#include <cmath>

#include "src/optim/optimizer.h"

namespace kinet {
namespace {

class RmsProp : public Optimizer {
 public:
  using Optimizer::Optimizer;

  static OptimizerType describe() {
    OptimizerType t;
    t.type = "RMSProp";
    t.help = "rates fall with the running mean of squared gradients";
    t.uses_momentum = false;
    return t;
  }

  int histories() const override { return 1; }

 protected:
  void apply(const Slice& s) const override {
    const float d = settings_.rms_decay, delta = settings_.delta, eta = s.rate;
    float* __restrict h = s.h1;
    float* __restrict w = s.w;
    const float* __restrict g = s.g;
    for (int64_t i = 0; i < s.n; ++i) {
      h[i] = d * h[i] + (1 - d) * g[i] * g[i];
      w[i] -= eta * g[i] / (std::sqrt(h[i]) + delta);
    }
  }
};

KINET_REGISTER_OPTIMIZER(RmsProp);

}  // namespace
}  // namespace kinet
