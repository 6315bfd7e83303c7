// Sigmoid on the device.
//
// Equation: y = 1 / (1 + exp(-x));  dx = dy y (1 - y).
// Shapes: top = bottom. May run in place. Parent: layers/sigmoid.h
#include "cuda/elementwise.h"
#include "cuda/layer.h"
#include "layers/sigmoid.h"

namespace kinet {
namespace {

struct SigmoidForward {
  __device__ float operator()(float x) const {
    return 1 / (1 + expf(-x));
  }  // expf(89) = inf: y = 0
};

struct SigmoidBackward {
  __device__ float operator()(float y, float dy) const { return dy * y * (1 - y); }
};

class CudaSigmoid : public Sigmoid {
 public:
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    map_values(gpu_of(context).stream, tops[0]->count(), SigmoidForward{},
               bottoms[0]->device_data(), tops[0]->device_data());
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    map_values(gpu_of(context).stream, tops[0]->count(), SigmoidBackward{}, tops[0]->device_data(),
               tops[0]->device_diff(), bottoms[0]->device_diff());
  }
};

KINET_REGISTER_CUDA_LAYER("Sigmoid", CudaSigmoid);

}  // namespace
}  // namespace kinet
