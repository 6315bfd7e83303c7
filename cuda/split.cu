// Split on the device. The tops' data is the bottom's: forward has nothing to do.
//
// Equation: dx = sum_i dy_i; a top without a gradient counts nothing.
// Shapes: tops = bottom. Parent: layers/split.h
#include "cuda/layer.h"
#include "cuda/weighted_sum.h"
#include "layers/split.h"

namespace kinet {
namespace {

class CudaSplit : public Split {
 public:
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const cudaStream_t stream = gpu_of(context).stream;
    std::vector<const float*> dy;
    for (Tensor* top : tops) {
      if (top->has_diff()) dy.push_back(top->device_diff());
    }
    if (dy.empty()) {
      fill_values(stream, bottoms[0]->count(), 0, bottoms[0]->device_diff());
    } else {
      weighted_sum(stream, bottoms[0]->count(), dy, std::vector<float>(dy.size(), 1.0f),
                   bottoms[0]->device_diff());
    }
  }
};

KINET_REGISTER_CUDA_LAYER("Split", CudaSplit);

}  // namespace
}  // namespace kinet
