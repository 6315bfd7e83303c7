// ReLU on the device; see layers/relu.h. The example of a CUDA layer.
//
// Equation: y = x where x > 0, slope x elsewhere;  dx = dy where x > 0, slope dy elsewhere.
// Shapes: top = bottom. May run in place; cuda/elementwise.h has the kernels.
#include "cuda/elementwise.h"
#include "cuda/layer.h"
#include "cuda/relu.h"
#include "layers/relu.h"
#include "src/net/fusion.h"

namespace kinet {
namespace {

// `sign` has the sign of x: y, or x itself when the slope is negative.
struct ReluBackward {
  float slope;
  __device__ float operator()(float sign, float dy) const { return sign > 0 ? dy : slope * dy; }
};

class CudaRelu : public Relu, public MayBeRelu {
 public:
  bool is_relu() const override { return slope_ == 0; }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    map_values(gpu_of(context).stream, tops[0]->count(), ReluForward{slope_},
               bottoms[0]->device_data(), tops[0]->device_data());
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const float* sign = slope_ < 0 ? bottoms[0]->device_data() : tops[0]->device_data();
    map_values(gpu_of(context).stream, tops[0]->count(), ReluBackward{slope_}, sign,
               tops[0]->device_diff(), bottoms[0]->device_diff());
  }
};

KINET_REGISTER_CUDA_LAYER("ReLU", CudaRelu);

}  // namespace
}  // namespace kinet
