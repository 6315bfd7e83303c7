// ReLU on the device; see layers/relu.h. The example of a CUDA layer: one kernel for each pass.
#include "cuda/layer.h"
#include "layers/relu.h"

namespace kinet {
namespace {

__global__ void relu_forward_kernel(int64_t n, float slope, const float* x, float* y) {
  KINET_GRID_STRIDE(i, n) {
    const float v = x[i];
    y[i] = v > 0 ? v : slope * v;
  }
}

// `sign` has the sign of x: y, or x itself when the slope is negative.
__global__ void relu_backward_kernel(int64_t n, float slope, const float* sign, const float* dy,
                                     float* dx) {
  KINET_GRID_STRIDE(i, n) { dx[i] = sign[i] > 0 ? dy[i] : slope * dy[i]; }
}

class CudaRelu : public Relu {
 public:
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const int64_t n = tops[0]->count();
    KINET_LAUNCH(relu_forward_kernel, blocks_for(n), kThreads, 0, gpu_of(context).stream, n, slope_,
                 bottoms[0]->device_data(), tops[0]->device_data());
    KINET_CUDA_CHECK_LAUNCH();
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const int64_t n = tops[0]->count();
    const float* sign = slope_ < 0 ? bottoms[0]->device_data() : tops[0]->device_data();
    KINET_LAUNCH(relu_backward_kernel, blocks_for(n), kThreads, 0, gpu_of(context).stream, n,
                 slope_, sign, tops[0]->device_diff(), bottoms[0]->device_diff());
    KINET_CUDA_CHECK_LAUNCH();
  }
};

KINET_REGISTER_CUDA_LAYER("ReLU", CudaRelu);

}  // namespace
}  // namespace kinet
