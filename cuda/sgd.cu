// Stochastic gradient descent with momentum on the device; see src/optim/sgd.cc.
//
// Equation:  v = mu v + eta g;  w = w - v
#include "cuda/optimizer.h"

namespace kinet {
namespace {

struct SgdRule {
  static constexpr int kHistories = 1;
  float mu;
  __device__ void operator()(const UpdateRates& r, float g, float& w, float& v, float&) const {
    v = mu * v + r.rate * g;
    w -= v;
  }
};

class CudaSgd : public CudaOptimizer<SgdRule> {
 public:
  using CudaOptimizer::CudaOptimizer;

 protected:
  SgdRule rule(const UpdateStep&) const override { return {settings_.momentum}; }
};

KINET_REGISTER_CUDA_OPTIMIZER("SGD", CudaSgd);

}  // namespace
}  // namespace kinet
