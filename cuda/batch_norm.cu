// BatchNorm on the device.
//
// Equation: y = (x - mean_c) / sqrt(var_c + eps).
//   Batch statistics: dx = (dy - mean(dy) - y mean(dy y)) / sqrt(var_c + eps); stored ones:
//   dx = dy / sqrt(var_c + eps). Running sums as in layers/batch_norm.h.
// Shapes: x, y outer x count x inner, count channels of m = outer inner values.
//
// Mean and variance need one pass: the sums of x - p and (x - p)^2, where p is the channel's first
// value. Since p lies about one standard deviation from the mean, nothing cancels, which the usual
// E[x^2] - mean^2 does in floats as soon as the mean is large.
// Reference: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983 (shifted
//   data).
// Parent: layers/batch_norm.h
#include "cuda/channels.h"
#include "cuda/layer.h"
#include "layers/batch_norm.h"

namespace kinet {
namespace {

// (x - p, (x - p)^2)
struct ShiftedMoments {
  const float* x;
  int64_t inner;
  float pivot;
  __device__ void begin(int64_t c) { pivot = x[c * inner]; }
  __device__ float2 operator()(float value, float) const {
    const float d = value - pivot;
    return make_float2(d, d * d);
  }
};

// Sums become the statistics that forward and backward use, and go into the running sums.
struct BatchStatistics {
  const float* x;
  int64_t inner;
  float m, correction, eps, fraction;  // correction: m / (m - 1)
  float *mean_sum, *variance_sum, *factor;
  float *mean, *inverse_std;
  __device__ void operator()(int64_t c, float2 sums) const {
    const float shift = sums.x / m, variance = sums.y / m - shift * shift;
    const float center = x[c * inner] + shift;
    const float spread = variance < 0 ? 0 : variance;  // a NaN stays one
    mean[c] = center;
    inverse_std[c] = 1 / sqrtf(spread + eps);
    mean_sum[c] = fraction * mean_sum[c] + center;
    variance_sum[c] = fraction * variance_sum[c] + correction * spread;
    if (c == 0) *factor = fraction * *factor + 1;
  }
};

// Nothing stored yet (factor 0): mean 0 and variance 1 pass values on as they are.
__global__ void __launch_bounds__(kThreads)
    stored_statistics_kernel(int64_t count, float eps, const float* mean_sum,
                             const float* variance_sum, const float* factor, float* mean,
                             float* inverse_std) {
  const float f = *factor;
  KINET_GRID_STRIDE(c, count) {
    mean[c] = f == 0 ? 0 : mean_sum[c] / f;
    inverse_std[c] = 1 / sqrtf((f == 0 ? 1 : variance_sum[c] / f) + eps);
  }
}

struct Normalize {
  const float *mean, *inverse_std;
  __device__ float operator()(int64_t c, float x, float) const {
    return (x - mean[c]) * inverse_std[c];
  }
};

// (dy y, dy) become their means.
struct Means {
  float m;
  float *of_product, *of_value;
  __device__ void operator()(int64_t c, float2 sums) const {
    of_product[c] = sums.x / m;
    of_value[c] = sums.y / m;
  }
};

struct NormalizeBackward {
  const float *inverse_std, *mean_product, *mean_value;
  __device__ float operator()(int64_t c, float dy, float y) const {
    return inverse_std[c] * (dy - mean_value[c] - y * mean_product[c]);
  }
};

struct TimesInverseStd {
  const float* inverse_std;
  __device__ float operator()(int64_t c, float dy, float) const { return inverse_std[c] * dy; }
};

class CudaBatchNorm : public BatchNormLayer {
 public:
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = BatchNormLayer::reshape(bottoms, plan);
    part_floats_ = SumPlan(broadcast_).floats(broadcast_);
    const auto channels = static_cast<size_t>(broadcast_.count);
    plan.saved(statistics_, 2 * channels);
    plan.temporary(parts_, part_floats_ + 2 * channels);
    return tops;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const cudaStream_t stream = gpu_of(context).stream;
    const float* x = bottoms[0]->device_data();
    device_used_stored_ = uses_stored(context.phase);
    if (device_used_stored_) {
      KINET_LAUNCH(stored_statistics_kernel, blocks_for(broadcast_.count), kThreads, 0, stream,
                   broadcast_.count, eps_, blobs()[0].device_data(), blobs()[1].device_data(),
                   blobs()[2].device_data(), mean(), inverse_std());
      KINET_CUDA_CHECK_LAUNCH();
    } else {
      batch_statistics(stream, x);
    }
    map_channels(stream, broadcast_, Normalize{mean(), inverse_std()}, x, x,
                 tops[0]->device_data());
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const cudaStream_t stream = gpu_of(context).stream;
    const float *dy = tops[0]->device_diff(), *y = tops[0]->device_data();
    float* dx = bottoms[0]->device_diff();
    if (device_used_stored_) {
      map_channels(stream, broadcast_, TimesInverseStd{inverse_std()}, dy, dy, dx);
      return;
    }
    float* mean_product = parts_.device_data() + part_floats_;
    float* mean_value = mean_product + broadcast_.count;
    sum_channels(stream, broadcast_, ProductAndValue{}, dy, y, parts_.device_data(),
                 Means{values(), mean_product, mean_value});
    map_channels(stream, broadcast_, NormalizeBackward{inverse_std(), mean_product, mean_value}, dy,
                 y, dx);
  }

 private:
  void batch_statistics(cudaStream_t stream, const float* x) {
    const float m = values();
    const BatchStatistics finish{x,
                                 broadcast_.inner,
                                 m,
                                 m > 1 ? m / (m - 1) : 1,
                                 eps_,
                                 fraction_,
                                 blobs()[0].device_data(),
                                 blobs()[1].device_data(),
                                 blobs()[2].device_data(),
                                 mean(),
                                 inverse_std()};
    sum_channels(stream, broadcast_, ShiftedMoments{x, broadcast_.inner, 0}, x, x,
                 parts_.device_data(), finish);
  }

  float values() const { return static_cast<float>(broadcast_.outer * broadcast_.inner); }  // m
  float* mean() { return statistics_.device_data(); }
  float* inverse_std() { return statistics_.device_data() + broadcast_.count; }

  bool device_used_stored_ = false;  // by the last forward pass
  size_t part_floats_ = 0;
  Workspace statistics_;  // saved: mean, then 1 / sqrt(var + eps)
  Workspace parts_;       // temporary: parts of sums, then two means for each channel
};

KINET_REGISTER_CUDA_LAYER("BatchNorm", CudaBatchNorm);

}  // namespace
}  // namespace kinet
