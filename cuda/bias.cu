// Bias on the device.
//
// Equation: y = x + b_c;  dx = dy;  db_c += sum of dy over outer and inner.
// Shapes: x, y outer x count x inner; b count. b is a parameter or the second bottom, whose
// gradient is overwritten. Parent: layers/bias.h
#include "cuda/channels.h"
#include "cuda/layer.h"
#include "layers/bias.h"

namespace kinet {
namespace {

struct PlusBias {
  const float* bias;
  __device__ float operator()(int64_t c, float x, float) const { return x + bias[c]; }
};

class CudaBias : public BiasLayer {
 public:
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = BiasLayer::reshape(bottoms, plan);
    plan.temporary(parts_, SumPlan(broadcast_).floats(broadcast_));
    return tops;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const float* x = bottoms[0]->device_data();
    const float* bias = learned_ ? blobs()[0].device_data() : bottoms[1]->device_data();
    map_channels(gpu_of(context).stream, broadcast_, PlusBias{bias}, x, x, tops[0]->device_data());
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    const cudaStream_t stream = gpu_of(context).stream;
    const float* dy = tops[0]->device_diff();
    if (learned_ ? mask.blob[0] : mask.bottom[1]) {
      float* gradient = learned_ ? blobs()[0].device_diff() : bottoms[1]->device_diff();
      sum_channels(stream, broadcast_, ValueOnly{}, dy, dy, parts_.device_data(),
                   Gradients{nullptr, gradient, false, learned_});
    }
    if (mask.bottom[0]) copy_values(stream, tops[0]->count(), dy, bottoms[0]->device_diff());
  }

 private:
  Workspace parts_;  // temporary
};

KINET_REGISTER_CUDA_LAYER("Bias", CudaBias);

}  // namespace
}  // namespace kinet
