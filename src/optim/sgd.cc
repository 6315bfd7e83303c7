// Stochastic gradient descent with momentum (heavy ball).
//
// Equation:  v = mu v + eta g
//            w = w - v
// History: v, which holds the update itself with the rate inside.
// Reference: Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.
#include "src/optim/optimizer.h"

namespace kinet {
namespace {

class Sgd : public Optimizer {
 public:
  using Optimizer::Optimizer;

  static OptimizerType describe() {
    OptimizerType t;
    t.type = "SGD";
    t.help = "stochastic gradient descent with momentum";
    return t;
  }

  int histories() const override { return 1; }

 protected:
  void apply(const Slice& s) const override {
    const float mu = settings_.momentum, eta = s.rate;
    float* __restrict v = s.h1;
    float* __restrict w = s.w;
    const float* __restrict g = s.g;
    for (int64_t i = 0; i < s.n; ++i) {
      v[i] = mu * v[i] + eta * g[i];
      w[i] -= v[i];
    }
  }
};

KINET_REGISTER_OPTIMIZER(Sgd);

}  // namespace
}  // namespace kinet
