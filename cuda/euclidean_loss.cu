// EuclideanLoss on the device.
//
// Equation: L = sum (a - b)^2 / (2 N);  da = (w / N) (a - b), db = -da. w is the top's gradient.
// Shapes: a, b of equal count, N samples; top: scalar. The sum is made in two stages in a fixed
// order.
// Parent: layers/euclidean_loss.h
#include "cuda/channels.h"
#include "cuda/layer.h"
#include "layers/euclidean_loss.h"

namespace kinet {
namespace {

struct SquaredDifference {
  __device__ void begin(int64_t) {}
  __device__ float2 operator()(float a, float b) const { return make_float2((a - b) * (a - b), 0); }
};

struct HalfMean {
  float samples;
  float* loss;
  __device__ void operator()(int64_t, float2 sums) const { *loss = sums.x / (2 * samples); }
};

// (own, other) -> (w / N) (own - other)
struct EuclideanBackward {
  float samples;
  const float* weight;
  __device__ float operator()(float own, float other) const {
    return *weight / samples * (own - other);
  }
};

class CudaEuclideanLoss : public EuclideanLoss {
 public:
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = EuclideanLoss::reshape(bottoms, plan);
    values_ = {1, 1, bottoms[0].count()};
    plan.temporary(parts_, SumPlan(values_).floats(values_));
    return tops;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    sum_channels(gpu_of(context).stream, values_, SquaredDifference{}, bottoms[0]->device_data(),
                 bottoms[1]->device_data(), parts_.device_data(),
                 HalfMean{static_cast<float>(samples_), tops[0]->device_data()});
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    const EuclideanBackward f{static_cast<float>(samples_), tops[0]->device_diff()};
    for (int side : {0, 1}) {
      if (!mask.bottom[side]) continue;
      map_values(gpu_of(context).stream, values_.inner, f, bottoms[side]->device_data(),
                 bottoms[1 - side]->device_data(), bottoms[side]->device_diff());
    }
  }

 private:
  Broadcast values_;
  Workspace parts_;  // temporary
};

KINET_REGISTER_CUDA_LAYER("EuclideanLoss", CudaEuclideanLoss);

}  // namespace
}  // namespace kinet
