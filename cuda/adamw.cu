// AdamW on the device; see src/optim/adamw.cc.
//
// Equation:  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//            w = w - eta (c m / (sqrt(v) + delta) + lambda r(w)),  r(w) = w (L2) or sign(w) (L1)
#include "cuda/optimizer.h"
#include "src/optim/bias_correction.h"

namespace kinet {
namespace {

struct AdamWRule {
  static constexpr int kHistories = 2;
  float b1, b2, delta, correction;  // c
  bool l1;
  __device__ void operator()(const UpdateRates& r, float g, float& w, float& m, float& v) const {
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const float sign = static_cast<float>(w > 0) - static_cast<float>(w < 0);
    w -= r.rate * (correction * m / (sqrtf(v) + delta) + r.decay * (l1 ? sign : w));
  }
};

class CudaAdamW : public CudaOptimizer<AdamWRule> {
 public:
  using CudaOptimizer::CudaOptimizer;

 protected:
  bool decoupled_decay() const override { return true; }
  AdamWRule rule(const UpdateStep& step) const override {
    const float b1 = settings_.momentum, b2 = settings_.momentum2;
    return {b1, b2, settings_.delta, bias_correction(b1, b2, step.step),
            settings_.regularization == Regularization::kL1};
  }
};

KINET_REGISTER_CUDA_OPTIMIZER("AdamW", CudaAdamW);

}  // namespace
}  // namespace kinet
