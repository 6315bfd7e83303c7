// AdaGrad: each weight's rate falls with the squares it has seen.
//
// Equation:  h = h + g^2
//            w = w - eta g / (sqrt(h) + delta)
// History: h. There is no momentum: a solver file that sets one is refused.
// Reference: Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning and
// stochastic optimization", JMLR 12, 2011.
#include <cmath>

#include "src/optim/optimizer.h"

namespace kinet {
namespace {

class AdaGrad : public Optimizer {
 public:
  using Optimizer::Optimizer;

  static OptimizerType describe() {
    OptimizerType t;
    t.type = "AdaGrad";
    t.help = "rates fall with the sum of squared gradients";
    t.uses_momentum = false;
    return t;
  }

  int histories() const override { return 1; }

 protected:
  void apply(const Slice& s) const override {
    const float delta = settings_.delta, eta = s.rate;
    float* __restrict h = s.h1;
    float* __restrict w = s.w;
    const float* __restrict g = s.g;
    for (int64_t i = 0; i < s.n; ++i) {
      h[i] += g[i] * g[i];
      w[i] -= eta * g[i] / (std::sqrt(h[i]) + delta);
    }
  }
};

KINET_REGISTER_OPTIMIZER(AdaGrad);

}  // namespace
}  // namespace kinet
