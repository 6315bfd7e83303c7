// AdamW: Adam whose weight decay acts on the weights themselves, not through the moments.
//
// Equation:  m = b1 m + (1 - b1) g         b1 = momentum
//            v = b2 v + (1 - b2) g^2       b2 = momentum2
//            w = w - eta (c m / (sqrt(v) + delta) + lambda r(w)),  c = sqrt(1 - b2^t) / (1 - b1^t)
// with r(w) = w (L2) or sign(w) (L1), lambda = weight_decay * decay_mult. Caffe does not have it.
// History: m, then v.
// Reference: Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019.
#include <cmath>

#include "src/optim/bias_correction.h"
#include "src/optim/optimizer.h"

namespace kinet {
namespace {

class AdamW : public Optimizer {
 public:
  using Optimizer::Optimizer;

  static OptimizerType describe() {
    OptimizerType t;
    t.type = "AdamW";
    t.help = "Adam with decoupled weight decay";
    return t;
  }

  int histories() const override { return 2; }

 protected:
  bool decoupled_decay() const override { return true; }

  void apply(const Slice& s) const override {
    const float b1 = settings_.momentum, b2 = settings_.momentum2, delta = settings_.delta;
    const float c = bias_correction(b1, b2, s.step), eta = s.rate, lambda = s.decay;
    const bool l1 = settings_.regularization == Regularization::kL1;
    float* __restrict m = s.h1;
    float* __restrict v = s.h2;
    float* __restrict w = s.w;
    const float* __restrict g = s.g;
    for (int64_t i = 0; i < s.n; ++i) {
      m[i] = b1 * m[i] + (1 - b1) * g[i];
      v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
      const float sign = static_cast<float>(w[i] > 0) - static_cast<float>(w[i] < 0);
      w[i] -= eta * (c * m[i] / (std::sqrt(v[i]) + delta) + lambda * (l1 ? sign : w[i]));
    }
  }
};

KINET_REGISTER_OPTIMIZER(AdamW);

}  // namespace
}  // namespace kinet
