// Nesterov's accelerated gradient on the device; see src/optim/nesterov.cc.
//
// Equation:  v' = mu v + eta g;  w = w - ((1 + mu) v' - mu v)
#include "cuda/optimizer.h"

namespace kinet {
namespace {

struct NesterovRule {
  static constexpr int kHistories = 1;
  float mu;
  __device__ void operator()(const UpdateRates& r, float g, float& w, float& v, float&) const {
    const float old = v;
    v = mu * old + r.rate * g;
    w -= (1 + mu) * v - mu * old;
  }
};

class CudaNesterov : public CudaOptimizer<NesterovRule> {
 public:
  using CudaOptimizer::CudaOptimizer;

 protected:
  NesterovRule rule(const UpdateStep&) const override { return {settings_.momentum}; }
};

KINET_REGISTER_CUDA_OPTIMIZER("Nesterov", CudaNesterov);

}  // namespace
}  // namespace kinet
