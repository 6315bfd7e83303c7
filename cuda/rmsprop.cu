// RMSProp on the device; see src/optim/rmsprop.cc.
//
// Equation:  h = d h + (1 - d) g^2;  w = w - eta g / (sqrt(h) + delta),  d = rms_decay
#include "cuda/optimizer.h"

namespace kinet {
namespace {

struct RmsPropRule {
  static constexpr int kHistories = 1;
  float decay, delta;
  __device__ void operator()(const UpdateRates& r, float g, float& w, float& h, float&) const {
    h = decay * h + (1 - decay) * g * g;
    w -= r.rate * g / (sqrtf(h) + delta);
  }
};

class CudaRmsProp : public CudaOptimizer<RmsPropRule> {
 public:
  using CudaOptimizer::CudaOptimizer;

 protected:
  RmsPropRule rule(const UpdateStep&) const override {
    return {settings_.rms_decay, settings_.delta};
  }
};

KINET_REGISTER_CUDA_OPTIMIZER("RMSProp", CudaRmsProp);

}  // namespace
}  // namespace kinet
