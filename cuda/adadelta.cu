// AdaDelta on the device; see src/optim/adadelta.cc.
//
// Equation:  h = mu h + (1 - mu) g^2;  u = g sqrt((d + delta) / (h + delta))
//            d = mu d + (1 - mu) u^2;  w = w - eta u
#include "cuda/optimizer.h"

namespace kinet {
namespace {

struct AdaDeltaRule {
  static constexpr int kHistories = 2;
  float mu, delta;
  __device__ void operator()(const UpdateRates& r, float g, float& w, float& h, float& d) const {
    h = mu * h + (1 - mu) * g * g;
    const float u = g * sqrtf((d + delta) / (h + delta));
    d = mu * d + (1 - mu) * u * u;
    w -= r.rate * u;
  }
};

class CudaAdaDelta : public CudaOptimizer<AdaDeltaRule> {
 public:
  using CudaOptimizer::CudaOptimizer;

 protected:
  AdaDeltaRule rule(const UpdateStep&) const override {
    return {settings_.momentum, settings_.delta};
  }
};

KINET_REGISTER_CUDA_OPTIMIZER("AdaDelta", CudaAdaDelta);

}  // namespace
}  // namespace kinet
