// Exponential linear unit on the device.
//
// Equation: y = x where x > 0, alpha (exp(x) - 1) elsewhere;
//   dx = dy where x > 0, dy (y + alpha) elsewhere.
// Shapes: top = bottom. The sign of x is that of y unless alpha is negative. Parent: layers/elu.h
#include "cuda/elementwise.h"
#include "cuda/layer.h"
#include "layers/elu.h"

namespace kinet {
namespace {

struct EluForward {
  float alpha;
  __device__ float operator()(float x) const { return x > 0 ? x : alpha * expm1f(x); }
};

struct EluBackward {
  float alpha;
  __device__ float operator()(float y, float dy) const { return y > 0 ? dy : dy * (y + alpha); }
  // alpha < 0: y is positive on both sides, so x is read too.
  __device__ float operator()(float x, float y, float dy) const {
    return x > 0 ? dy : dy * (y + alpha);
  }
};

class CudaElu : public Elu {
 public:
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    map_values(gpu_of(context).stream, tops[0]->count(), EluForward{alpha_},
               bottoms[0]->device_data(), tops[0]->device_data());
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const float *y = tops[0]->device_data(), *dy = tops[0]->device_diff();
    float* dx = bottoms[0]->device_diff();
    const EluBackward grad{alpha_};
    if (alpha_ < 0) {
      map_values(gpu_of(context).stream, tops[0]->count(), grad, bottoms[0]->device_data(), y, dy,
                 dx);
    } else {
      map_values(gpu_of(context).stream, tops[0]->count(), grad, y, dy, dx);
    }
  }
};

KINET_REGISTER_CUDA_LAYER("ELU", CudaElu);

}  // namespace
}  // namespace kinet
