// Adam: momentum over gradients, divided by the root of their running squares.
//
// Equation:  m = b1 m + (1 - b1) g         b1 = momentum
//            v = b2 v + (1 - b2) g^2       b2 = momentum2
//            w = w - eta c m / (sqrt(v) + delta),   c = sqrt(1 - b2^t) / (1 - b1^t)
// delta stands outside the bias correction, as in the paper's section 2 (PyTorch puts it inside).
// History: m, then v.
// Reference: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015.
#include <cmath>

#include "src/optim/bias_correction.h"
#include "src/optim/optimizer.h"

namespace kinet {
namespace {

class Adam : public Optimizer {
 public:
  using Optimizer::Optimizer;

  static OptimizerType describe() {
    OptimizerType t;
    t.type = "Adam";
    t.help = "first and second moments, bias corrected";
    return t;
  }

  int histories() const override { return 2; }

 protected:
  void apply(const Slice& s) const override {
    const float b1 = settings_.momentum, b2 = settings_.momentum2, delta = settings_.delta;
    const float eta = s.rate * bias_correction(b1, b2, s.step);
    float* __restrict m = s.h1;
    float* __restrict v = s.h2;
    float* __restrict w = s.w;
    const float* __restrict g = s.g;
    for (int64_t i = 0; i < s.n; ++i) {
      m[i] = b1 * m[i] + (1 - b1) * g[i];
      v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
      w[i] -= eta * m[i] / (std::sqrt(v[i]) + delta);
    }
  }
};

KINET_REGISTER_OPTIMIZER(Adam);

}  // namespace
}  // namespace kinet
