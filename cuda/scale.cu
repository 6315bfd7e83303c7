// Scale on the device.
//
// Equation: y = x s_c + b_c;  dx = dy s_c;  ds_c += sum of dy x;  db_c += sum of dy.
// Shapes: x, y outer x count x inner; s, b count. s is a parameter or the second bottom, whose
// gradient is overwritten. Both sums are made in one pass over dy and x. Parent: layers/scale.h
#include "cuda/channels.h"
#include "cuda/layer.h"
#include "layers/scale.h"

namespace kinet {
namespace {

struct TimesScale {
  const float* scale;
  __device__ float operator()(int64_t c, float x, float) const { return x * scale[c]; }
};

struct TimesScalePlusBias {
  const float *scale, *bias;
  __device__ float operator()(int64_t c, float x, float) const { return x * scale[c] + bias[c]; }
};

class CudaScale : public ScaleLayer {
 public:
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = ScaleLayer::reshape(bottoms, plan);
    plan.temporary(parts_, SumPlan(broadcast_).floats(broadcast_));
    return tops;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const cudaStream_t stream = gpu_of(context).stream;
    const float *x = bottoms[0]->device_data(), *scale = scale_of(bottoms);
    float* y = tops[0]->device_data();
    if (bias_term_) {
      const TimesScalePlusBias f{scale, blobs().back().device_data()};
      map_channels(stream, broadcast_, f, x, x, y);
    } else {
      map_channels(stream, broadcast_, TimesScale{scale}, x, x, y);
    }
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    const cudaStream_t stream = gpu_of(context).stream;
    const float* dy = tops[0]->device_diff();
    Gradients to{nullptr, nullptr, learned_, true};
    if (learned_ ? mask.blob[0] : mask.bottom[1]) {
      to.first = learned_ ? blobs()[0].device_diff() : bottoms[1]->device_diff();
    }
    if (bias_term_ && mask.blob.back()) to.second = blobs().back().device_diff();
    if (to.first != nullptr) {
      sum_channels(stream, broadcast_, ProductAndValue{}, dy, bottoms[0]->device_data(),
                   parts_.device_data(), to);
    } else if (to.second != nullptr) {
      sum_channels(stream, broadcast_, ValueOnly{}, dy, dy, parts_.device_data(), to);
    }
    if (!mask.bottom[0]) return;
    map_channels(stream, broadcast_, TimesScale{scale_of(bottoms)}, dy, dy,
                 bottoms[0]->device_diff());
  }

 private:
  const float* scale_of(Tensors bottoms) {
    return learned_ ? blobs()[0].device_data() : bottoms[1]->device_data();
  }

  Workspace parts_;  // temporary
};

KINET_REGISTER_CUDA_LAYER("Scale", CudaScale);

}  // namespace
}  // namespace kinet
