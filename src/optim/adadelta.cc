// AdaDelta: the unit of a step comes from earlier steps, so eta is usually 1.
//
// Equation:  h = mu h + (1 - mu) g^2
//            u = g sqrt((d + delta) / (h + delta))
//            d = mu d + (1 - mu) u^2       (without eta)
//            w = w - eta u
// History: h, then d. `momentum` is the decay mu.
// Reference: Zeiler, "ADADELTA: an adaptive learning rate method", arXiv 1212.5701, 2012.
#include <cmath>

#include "src/optim/optimizer.h"

namespace kinet {
namespace {

class AdaDelta : public Optimizer {
 public:
  using Optimizer::Optimizer;

  static OptimizerType describe() {
    OptimizerType t;
    t.type = "AdaDelta";
    t.help = "steps scaled by the size of earlier steps";
    return t;
  }

  int histories() const override { return 2; }

 protected:
  void apply(const Slice& s) const override {
    const float mu = settings_.momentum, delta = settings_.delta, eta = s.rate;
    float* __restrict h = s.h1;
    float* __restrict d = s.h2;
    float* __restrict w = s.w;
    const float* __restrict g = s.g;
    for (int64_t i = 0; i < s.n; ++i) {
      h[i] = mu * h[i] + (1 - mu) * g[i] * g[i];
      const float u = g[i] * std::sqrt((d[i] + delta) / (h[i] + delta));
      d[i] = mu * d[i] + (1 - mu) * u * u;
      w[i] -= eta * u;
    }
  }
};

KINET_REGISTER_OPTIMIZER(AdaDelta);

}  // namespace
}  // namespace kinet
