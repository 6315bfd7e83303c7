// AdaGrad on the device; see src/optim/adagrad.cc.
//
// Equation:  h = h + g^2;  w = w - eta g / (sqrt(h) + delta)
#include "cuda/optimizer.h"

namespace kinet {
namespace {

struct AdaGradRule {
  static constexpr int kHistories = 1;
  float delta;
  __device__ void operator()(const UpdateRates& r, float g, float& w, float& h, float&) const {
    h += g * g;
    w -= r.rate * g / (sqrtf(h) + delta);
  }
};

class CudaAdaGrad : public CudaOptimizer<AdaGradRule> {
 public:
  using CudaOptimizer::CudaOptimizer;

 protected:
  AdaGradRule rule(const UpdateStep&) const override { return {settings_.delta}; }
};

KINET_REGISTER_CUDA_OPTIMIZER("AdaGrad", CudaAdaGrad);

}  // namespace
}  // namespace kinet
