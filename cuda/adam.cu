// Adam on the device; see src/optim/adam.cc.
//
// Equation:  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//            w = w - eta c m / (sqrt(v) + delta),  c = sqrt(1 - b2^t) / (1 - b1^t)
#include "cuda/optimizer.h"
#include "src/optim/bias_correction.h"

namespace kinet {
namespace {

struct AdamRule {
  static constexpr int kHistories = 2;
  float b1, b2, delta, correction;  // c
  __device__ void operator()(const UpdateRates& r, float g, float& w, float& m, float& v) const {
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    w -= r.rate * correction * m / (sqrtf(v) + delta);
  }
};

class CudaAdam : public CudaOptimizer<AdamRule> {
 public:
  using CudaOptimizer::CudaOptimizer;

 protected:
  AdamRule rule(const UpdateStep& step) const override {
    const float b1 = settings_.momentum, b2 = settings_.momentum2;
    return {b1, b2, settings_.delta, bias_correction(b1, b2, step.step)};
  }
};

KINET_REGISTER_CUDA_OPTIMIZER("Adam", CudaAdam);

}  // namespace
}  // namespace kinet
