// LRN on the device.
//
// Equation: scale = k + (alpha / n) sum of x^2 over the window;  y = x scale^-beta;
//   ratio = dy x scale^(-beta - 1);
//   dx = dy scale^-beta - (2 alpha beta / n) x sum of ratio over the window.
// Shapes: x, y, scale, ratio N x C x H x W. ACROSS_CHANNELS: a window is local_size channels of one
//   pixel; WITHIN_CHANNEL: local_size x local_size pixels of one channel; cut off at the borders.
//
// Every thread adds its own window: neighbours in a warp read neighbouring values, and what they
// read again comes from the cache. A running sum over channels would read less, but loses digits
// where a large value leaves the window. Backward needs two kernels, ratios first. Parent:
// layers/lrn.h
#include "cuda/divide.h"
#include "cuda/elementwise.h"
#include "cuda/layer.h"
#include "layers/lrn.h"

namespace kinet {
namespace {

struct Square {
  __device__ float operator()(float x) const { return x * x; }
};

struct Value {
  __device__ float operator()(float x) const { return x; }
};

template <class Divide>
struct AcrossChannels {
  using Index = typename Divide::Index;
  int64_t pixels, channels, radius;
  Divide by_pixels, by_channels;

  // Sum of term(values) over the window around value i.
  template <class Term>
  __device__ float sum(int64_t i, Term term, const float* values) const {
    const int64_t c = by_channels.remainder(by_pixels.quotient(static_cast<Index>(i)));
    const int64_t first = c > radius ? c - radius : 0;
    const int64_t end = c + radius + 1 < channels ? c + radius + 1 : channels;
    const float* at = values + i + (first - c) * pixels;
    float sum = 0;
    for (int64_t k = first; k < end; ++k, at += pixels) sum += term(*at);
    return sum;
  }
};

template <class Divide>
struct WithinChannel {
  using Index = typename Divide::Index;
  int64_t height, width, radius;
  Divide by_height, by_width;

  template <class Term>
  __device__ float sum(int64_t i, Term term, const float* values) const {
    const int64_t line = by_width.quotient(static_cast<Index>(i)), c = i - line * width;
    const int64_t r = by_height.remainder(static_cast<Index>(line));
    const int64_t first = c > radius ? c - radius : 0;
    const int64_t end = c + radius + 1 < width ? c + radius + 1 : width;
    const int64_t up = r > radius ? radius : r;
    const int64_t down = r + radius < height ? radius : height - 1 - r;
    float sum = 0;
    for (int64_t k = -up; k <= down; ++k) {
      const float* row = values + (line + k) * width;
      for (int64_t j = first; j < end; ++j) sum += term(row[j]);
    }
    return sum;
  }
};

// scale^-beta; the usual beta, 0.75, needs square roots only.
__device__ float inverse_power(float scale, float beta) {
  if (beta == 0.75f) {
    const float root = sqrtf(scale);
    return 1 / (root * sqrtf(root));
  }
  return powf(scale, -beta);
}

template <class Window>
__global__ void __launch_bounds__(kThreads)
    lrn_forward_kernel(int64_t n, Window window, float k, float factor, float beta, const float* x,
                       float* scale, float* y) {
  KINET_GRID_STRIDE(i, n) {
    const float s = k + factor * window.sum(i, Square{}, x);
    scale[i] = s;
    y[i] = x[i] * inverse_power(s, beta);
  }
}

// (x, scale, dy) -> ratio
struct Ratio {
  float beta;
  __device__ float operator()(float x, float scale, float dy) const {
    return dy * x * inverse_power(scale, beta) / scale;
  }
};

template <class Window>
__global__ void __launch_bounds__(kThreads)
    lrn_backward_kernel(int64_t n, Window window, float factor, float beta, const float* x,
                        const float* scale, const float* dy, const float* ratio, float* dx) {
  KINET_GRID_STRIDE(i, n) {
    const float around = window.sum(i, Value{}, ratio);
    dx[i] = dy[i] * inverse_power(scale[i], beta) - 2 * factor * beta * x[i] * around;
  }
}

class CudaLrn : public LrnLayer {
 public:
  // Instead of the host's scratch memory: the ratios.
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = LrnLayer::reshape(bottoms, plan);
    plan.temporary(ratio_, static_cast<size_t>(shape_.count()));
    return tops;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const cudaStream_t stream = gpu_of(context).stream;
    const float* x = bottoms[0]->device_data();
    float* y = tops[0]->device_data();
    with_window([&](auto window) {
      KINET_LAUNCH((lrn_forward_kernel<decltype(window)>), blocks_for(shape_.count()), kThreads, 0,
                   stream, shape_.count(), window, k_, factor_, beta_, x, scale_.device_data(), y);
    });
    KINET_CUDA_CHECK_LAUNCH();
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const cudaStream_t stream = gpu_of(context).stream;
    const float *x = bottoms[0]->device_data(), *dy = tops[0]->device_diff();
    const float* scale = scale_.device_data();
    float* dx = bottoms[0]->device_diff();
    map_values(stream, shape_.count(), Ratio{beta_}, x, scale, dy, ratio_.device_data());
    with_window([&](auto window) {
      KINET_LAUNCH((lrn_backward_kernel<decltype(window)>), blocks_for(shape_.count()), kThreads, 0,
                   stream, shape_.count(), window, factor_, beta_, x, scale, dy,
                   ratio_.device_data(), dx);
    });
    KINET_CUDA_CHECK_LAUNCH();
  }

 private:
  // Calls run(window) with the window that the fields and the size ask for.
  template <class Run>
  void with_window(Run run) const {
    if (shape_.count() < kFastDivideLimit) {
      with_divider<FastDivide>(run);
    } else {
      with_divider<LongDivide>(run);
    }
  }

  template <class Divide, class Run>
  void with_divider(Run run) const {
    const int64_t h = shape_.height(), w = shape_.width(), c = shape_.channels();
    const int64_t radius = (size_ - 1) / 2;
    if (shape_.count() == 0) return;
    if (across_) {
      run(AcrossChannels<Divide>{h * w, c, radius, Divide(h * w), Divide(c)});
    } else {
      run(WithinChannel<Divide>{h, w, radius, Divide(h), Divide(w)});
    }
  }

  Workspace ratio_;  // temporary
};

KINET_REGISTER_CUDA_LAYER("LRN", CudaLrn);

}  // namespace
}  // namespace kinet
