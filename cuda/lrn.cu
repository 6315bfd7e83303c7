// LRN on the device.
//
// Equation: scale = k + (alpha / n) sum of x^2 over the window;  y = x scale^-beta;
//   ratio = dy x scale^(-beta - 1);
//   dx = dy scale^-beta - (2 alpha beta / n) x sum of ratio over the window.
// Shapes: x, y, scale, ratio N x C x H x W. ACROSS_CHANNELS: a window is local_size channels of one
//   pixel; WITHIN_CHANNEL: local_size x local_size pixels of one channel; cut off at the borders.
//
// Across channels, with the usual sizes 3 and 5, a thread follows one pixel, or four where images
// have a multiple of four, through kRun channels and keeps the window in registers: a value is read
// (kRun + size - 1) / kRun times instead of `size` times. Each window is added up anew; a running
// sum would lose digits where a large value leaves it. All other windows are read value by value,
// what is read again comes from the cache; there backward needs the ratios first. Neighbouring
// threads always read neighbouring pixels.
// Parent: layers/lrn.h
#include "cuda/divide.h"
#include "cuda/elementwise.h"
#include "cuda/layer.h"
#include "layers/lrn.h"

namespace kinet {
namespace {

// scale^-beta; the usual beta, 0.75, needs square roots only.
__device__ float inverse_power(float scale, float beta) {
  if (beta == 0.75f) {
    const float root = sqrtf(scale);
    return 1 / (root * sqrtf(root));
  }
  return powf(scale, -beta);
}

// ---- what is summed over a window, terms(i), and what becomes of the sum, finish(i, sum) --------
// both for kWide neighbouring pixels of a channel

struct LrnForward {
  float k, factor, beta;
  const float* x;
  float *scale, *y;

  bool aligned() const { return aligned_16(x) && aligned_16(scale) && aligned_16(y); }
  template <int kWide>
  __device__ Wide<kWide> terms(int64_t i) const {
    Wide<kWide> result = load_wide<kWide>(x + i);
#pragma unroll
    for (float& v : result.v) v *= v;
    return result;
  }
  template <int kWide>
  __device__ void finish(int64_t i, const Wide<kWide>& sum) const {
    Wide<kWide> of_scale, result = load_wide<kWide>(x + i);
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      of_scale.v[j] = k + factor * sum.v[j];
      result.v[j] *= inverse_power(of_scale.v[j], beta);
    }
    store_wide(scale + i, of_scale);
    store_wide(y + i, result);
  }
};

struct LrnBackward {
  float factor, beta;
  const float *x, *scale, *dy;
  float* dx;

  bool aligned() const {
    return aligned_16(x) && aligned_16(scale) && aligned_16(dy) && aligned_16(dx);
  }
  template <int kWide>
  __device__ Wide<kWide> terms(int64_t i) const {
    Wide<kWide> result = load_wide<kWide>(dy + i);
    const Wide<kWide> at = load_wide<kWide>(x + i), of_scale = load_wide<kWide>(scale + i);
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      result.v[j] = result.v[j] * at.v[j] * inverse_power(of_scale.v[j], beta) / of_scale.v[j];
    }
    return result;
  }
  template <int kWide>
  __device__ void finish(int64_t i, const Wide<kWide>& sum) const {
    Wide<kWide> result = load_wide<kWide>(dy + i);
    const Wide<kWide> at = load_wide<kWide>(x + i), of_scale = load_wide<kWide>(scale + i);
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      result.v[j] =
          result.v[j] * inverse_power(of_scale.v[j], beta) - 2 * factor * beta * at.v[j] * sum.v[j];
    }
    store_wide(dx + i, result);
  }
};

// With the terms made beforehand.
struct LrnBackwardOfRatios : LrnBackward {
  const float* ratio;
  template <int kWide>
  __device__ Wide<kWide> terms(int64_t i) const {
    return load_wide<kWide>(ratio + i);
  }
};

struct Ratio {
  float beta;
  __device__ float operator()(float x, float scale, float dy) const {
    return dy * x * inverse_power(scale, beta) / scale;
  }
};

// ---- across channels, the window in registers ---------------------------------------------------

constexpr int64_t kRun = 16;  // channels that one thread follows

// Items are (image, run of channels, kWide pixels), pixels innermost.
template <class Divide>
struct ChannelRuns {
  int64_t pixels, channels, runs;  // runs: of one image
  Divide by_pixels, by_runs;       // by_pixels: by items of one run
};

// REQUIRES: pixels a multiple of kWide
template <int kSize, int kWide, class Divide, class Work>
__global__ void __launch_bounds__(kThreads)
    lrn_runs_kernel(int64_t items, ChannelRuns<Divide> shape, Work work) {
  using Index = typename Divide::Index;
  constexpr int kRadius = kSize / 2;
  KINET_GRID_STRIDE(item, items) {
    const int64_t line = shape.by_pixels.quotient(static_cast<Index>(item));
    const int64_t image = shape.by_runs.quotient(static_cast<Index>(line));
    const int64_t first = (line - image * shape.runs) * kRun;
    const int64_t end = first + kRun < shape.channels ? first + kRun : shape.channels;
    const int64_t base = image * shape.channels * shape.pixels + item * kWide - line * shape.pixels;
    const auto terms = [&](int64_t c) {
      return c >= 0 && c < shape.channels ? work.template terms<kWide>(base + c * shape.pixels)
                                          : Wide<kWide>{};
    };
    // Terms of channels c - kRadius .. c + kRadius, once c is entered.
    Wide<kWide> window[kSize];
#pragma unroll
    for (int j = 1; j < kSize; ++j) window[j] = terms(first - kRadius + j - 1);
    for (int64_t c = first; c < end; ++c) {
#pragma unroll
      for (int j = 1; j < kSize; ++j) window[j - 1] = window[j];
      window[kSize - 1] = terms(c + kRadius);
      Wide<kWide> sum = window[0];
#pragma unroll
      for (int j = 1; j < kSize; ++j) {
#pragma unroll
        for (int pixel = 0; pixel < kWide; ++pixel) sum.v[pixel] += window[j].v[pixel];
      }
      work.finish(base + c * shape.pixels, sum);
    }
  }
}

// ---- any window, value by value -----------------------------------------------------------------

template <class Divide>
struct AcrossChannels {
  using Index = typename Divide::Index;
  int64_t pixels, channels, radius;
  Divide by_pixels, by_channels;

  // Sum of the terms over the window around value i.
  template <class Work>
  __device__ float sum(int64_t i, const Work& work) const {
    const int64_t c = by_channels.remainder(by_pixels.quotient(static_cast<Index>(i)));
    const int64_t first = c > radius ? c - radius : 0;
    const int64_t end = c + radius + 1 < channels ? c + radius + 1 : channels;
    float sum = 0;
    for (int64_t k = first; k < end; ++k) sum += work.template terms<1>(i + (k - c) * pixels).v[0];
    return sum;
  }
};

template <class Divide>
struct WithinChannel {
  using Index = typename Divide::Index;
  int64_t height, width, radius;
  Divide by_height, by_width;

  template <class Work>
  __device__ float sum(int64_t i, const Work& work) const {
    const int64_t line = by_width.quotient(static_cast<Index>(i)), c = i - line * width;
    const int64_t r = by_height.remainder(static_cast<Index>(line));
    const int64_t first = c > radius ? c - radius : 0;
    const int64_t end = c + radius + 1 < width ? c + radius + 1 : width;
    const int64_t up = r > radius ? radius : r;
    const int64_t down = r + radius < height ? radius : height - 1 - r;
    float sum = 0;
    for (int64_t k = -up; k <= down; ++k) {
      for (int64_t j = first; j < end; ++j) {
        sum += work.template terms<1>((line + k) * width + j).v[0];
      }
    }
    return sum;
  }
};

template <class Window, class Work>
__global__ void __launch_bounds__(kThreads) lrn_window_kernel(int64_t n, Window window, Work work) {
  KINET_GRID_STRIDE(i, n) { work.finish(i, Wide<1>{{window.sum(i, work)}}); }
}

// ---- the layer ----------------------------------------------------------------------------------

class CudaLrn : public LrnLayer {
 public:
  // Instead of the host's scratch memory: the ratios, where they are needed.
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = LrnLayer::reshape(bottoms, plan);
    if (!in_registers()) plan.temporary(ratio_, static_cast<size_t>(shape_.count()));
    return tops;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const cudaStream_t stream = gpu_of(context).stream;
    const LrnForward work{k_,
                          factor_,
                          beta_,
                          bottoms[0]->device_data(),
                          scale_.device_data(),
                          tops[0]->device_data()};
    if (in_registers()) {
      follow_runs(stream, work);
    } else {
      sum_windows(stream, work);
    }
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const cudaStream_t stream = gpu_of(context).stream;
    const LrnBackward work{factor_,
                           beta_,
                           bottoms[0]->device_data(),
                           scale_.device_data(),
                           tops[0]->device_diff(),
                           bottoms[0]->device_diff()};
    if (in_registers()) {
      follow_runs(stream, work);
      return;
    }
    float* ratio = ratio_.device_data();
    map_values(stream, shape_.count(), Ratio{beta_}, work.x, work.scale, work.dy, ratio);
    sum_windows(stream, LrnBackwardOfRatios{work, ratio});
  }

 private:
  bool in_registers() const { return across_ && (size_ == 3 || size_ == 5); }
  bool fits() const { return shape_.count() < kFastDivideLimit; }

  template <class Work>
  void follow_runs(cudaStream_t stream, const Work& work) const {
    if (shape_.count() == 0) return;
    const bool wide = shape_.height() * shape_.width() % 4 == 0 && work.aligned();
    if (size_ == 3) {
      if (wide) launch_runs<3, 4>(stream, work);
      if (!wide) launch_runs<3, 1>(stream, work);
    } else {
      if (wide) launch_runs<5, 4>(stream, work);
      if (!wide) launch_runs<5, 1>(stream, work);
    }
    KINET_CUDA_CHECK_LAUNCH();
  }

  template <int kSize, int kWide, class Work>
  void launch_runs(cudaStream_t stream, const Work& work) const {
    if (fits()) launch_items<kSize, kWide, FastDivide>(stream, work);
    if (!fits()) launch_items<kSize, kWide, LongDivide>(stream, work);
  }

  template <int kSize, int kWide, class Divide, class Work>
  void launch_items(cudaStream_t stream, const Work& work) const {
    const int64_t pixels = shape_.height() * shape_.width(), items_of_run = pixels / kWide;
    const int64_t runs = (shape_.channels() + kRun - 1) / kRun;
    const int64_t items = shape_.num() * runs * items_of_run;
    const ChannelRuns<Divide> shape{pixels, shape_.channels(), runs, Divide(items_of_run),
                                    Divide(runs)};
    KINET_LAUNCH((lrn_runs_kernel<kSize, kWide, Divide, Work>), blocks_for(items), kThreads, 0,
                 stream, items, shape, work);
  }

  template <class Work>
  void sum_windows(cudaStream_t stream, const Work& work) const {
    if (shape_.count() == 0) return;
    if (fits()) launch_windows<FastDivide>(stream, work);
    if (!fits()) launch_windows<LongDivide>(stream, work);
    KINET_CUDA_CHECK_LAUNCH();
  }

  template <class Divide, class Work>
  void launch_windows(cudaStream_t stream, const Work& work) const {
    const int64_t h = shape_.height(), w = shape_.width(), c = shape_.channels();
    const int64_t n = shape_.count(), radius = (size_ - 1) / 2;
    if (across_) {
      const AcrossChannels<Divide> window{h * w, c, radius, Divide(h * w), Divide(c)};
      KINET_LAUNCH((lrn_window_kernel<AcrossChannels<Divide>, Work>), blocks_for(n), kThreads, 0,
                   stream, n, window, work);
    } else {
      const WithinChannel<Divide> window{h, w, radius, Divide(h), Divide(w)};
      KINET_LAUNCH((lrn_window_kernel<WithinChannel<Divide>, Work>), blocks_for(n), kThreads, 0,
                   stream, n, window, work);
    }
  }

  Workspace ratio_;  // temporary
};

KINET_REGISTER_CUDA_LAYER("LRN", CudaLrn);

}  // namespace
}  // namespace kinet
