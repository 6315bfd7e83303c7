// Nesterov's accelerated gradient, in the form that needs the gradient only at w.
//
// Equation:  v' = mu v + eta g
//            w  = w - ((1 + mu) v' - mu v)
// History: v.
// Reference: Sutskever et al., "On the importance of initialization and momentum in deep
// learning", ICML 2013.
#include "src/optim/optimizer.h"

namespace kinet {
namespace {

class Nesterov : public Optimizer {
 public:
  using Optimizer::Optimizer;

  static OptimizerType describe() {
    OptimizerType t;
    t.type = "Nesterov";
    t.help = "Nesterov's accelerated gradient";
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
      const float old = v[i];
      v[i] = mu * old + eta * g[i];
      w[i] -= (1 + mu) * v[i] - mu * old;
    }
  }
};

KINET_REGISTER_OPTIMIZER(Nesterov);

}  // namespace
}  // namespace kinet
