// Hyperbolic tangent on the device.
//
// Equation: y = tanh(x);  dx = dy (1 - y^2).
// Shapes: top = bottom. May run in place. Parent: layers/tanh.h
#include "cuda/elementwise.h"
#include "cuda/layer.h"
#include "layers/tanh.h"

namespace kinet {
namespace {

struct TanhForward {
  __device__ float operator()(float x) const { return tanhf(x); }
};

struct TanhBackward {
  __device__ float operator()(float y, float dy) const { return dy * (1 - y * y); }
};

class CudaTanH : public TanH {
 public:
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    map_values(gpu_of(context).stream, tops[0]->count(), TanhForward{}, bottoms[0]->device_data(),
               tops[0]->device_data());
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    map_values(gpu_of(context).stream, tops[0]->count(), TanhBackward{}, tops[0]->device_data(),
               tops[0]->device_diff(), bottoms[0]->device_diff());
  }
};

KINET_REGISTER_CUDA_LAYER("TanH", CudaTanH);

}  // namespace
}  // namespace kinet
