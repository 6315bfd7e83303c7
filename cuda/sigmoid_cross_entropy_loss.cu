// SigmoidCrossEntropyLoss on the device.
//
// Equation: L = (1 / D) sum of max(x, 0) - x t + log(1 + e^-|x|);  dx = (w / D) (sigmoid(x) - t).
//   Where t is ignore_label: no loss, dx = 0. w is the top's gradient.
// Shapes: x, t of equal count; top: scalar.
// The positions that count are counted beside the sum, so that D need not come from the host.
// Parent: layers/sigmoid_cross_entropy_loss.h
#include "cuda/channels.h"
#include "cuda/ignored_label.h"
#include "cuda/layer.h"
#include "layers/sigmoid_cross_entropy_loss.h"

namespace kinet {
namespace {

// (loss, 1), or (0, 0) where t is ignored
struct LogisticTerm {
  IgnoredLabel ignored;
  __device__ void begin(int64_t) {}
  __device__ float2 operator()(float x, float t) const {
    if (ignored(t)) return make_float2(0, 0);
    return make_float2((x > 0 ? x : 0) - x * t + log1pf(expf(-fabsf(x))), 1);
  }
};

// divisor: what the host knows, or 0: as many as count, at least 1.
struct MeanLogistic {
  float divisor;
  float *loss, *divisor_used;
  __device__ void operator()(int64_t, float2 sums) const {
    const float valid = sums.y > 1 ? sums.y : 1, d = divisor > 0 ? divisor : valid;
    *loss = sums.x / d;
    *divisor_used = d;
  }
};

struct LogisticBackward {
  IgnoredLabel ignored;
  const float *weight, *divisor;
  __device__ float operator()(float x, float t) const {
    return ignored(t) ? 0 : *weight / *divisor * (1 / (1 + expf(-x)) - t);
  }
};

class CudaSigmoidCrossEntropyLoss : public SigmoidCrossEntropyLoss {
 public:
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = SigmoidCrossEntropyLoss::reshape(bottoms, plan);
    values_ = {1, 1, bottoms[0].count()};
    plan.saved(divisor_used_, 1);
    plan.temporary(parts_, SumPlan(values_).floats(values_));
    return tops;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const bool counted = options_.normalization == Normalization::kValid;
    const double divisor = counted ? 0 : options_.divisor(samples_, values_.inner, 0);
    sum_channels(gpu_of(context).stream, values_, LogisticTerm{IgnoredLabel(options_.ignore_label)},
                 bottoms[0]->device_data(), bottoms[1]->device_data(), parts_.device_data(),
                 MeanLogistic{static_cast<float>(divisor), tops[0]->device_data(),
                              divisor_used_.device_data()});
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const LogisticBackward f{IgnoredLabel(options_.ignore_label), tops[0]->device_diff(),
                             divisor_used_.device_data()};
    map_values(gpu_of(context).stream, values_.inner, f, bottoms[0]->device_data(),
               bottoms[1]->device_data(), bottoms[0]->device_diff());
  }

 private:
  Broadcast values_;
  Workspace divisor_used_;  // saved: D
  Workspace parts_;         // temporary
};

KINET_REGISTER_CUDA_LAYER("SigmoidCrossEntropyLoss", CudaSigmoidCrossEntropyLoss);

}  // namespace
}  // namespace kinet
