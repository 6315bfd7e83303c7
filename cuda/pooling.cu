// Pooling on the device.
//
// Equation: MAX  y = the largest x of the window; its place is kept, the first of equals, and NaN
//                counts as largest.  dx = sum of dy over the windows whose place is this pixel.
//           AVE  y = sum of x over the window / divisor;  dx = sum of dy / divisor over the windows
//                that contain this pixel. Divisors as in layers/pooling.h.
// Shapes: x planes x H x W; y planes x H' x W', planes = N C.
//
// Backward gathers: a pixel asks the few windows that contain it. So nothing is added from two
// threads, no atomics are needed, and the order of summation is fixed.
// Parent: layers/pooling.h
#include "cuda/divide.h"
#include "cuda/elementwise.h"
#include "cuda/layer.h"
#include "cuda/reduce.h"
#include "layers/pooling.h"

namespace kinet {
namespace {

// One axis of the windows: which pixels window o covers, and which windows cover pixel p.
template <class Divide>
struct PoolAxis {
  int64_t size, outputs, kernel, step, pad;
  Divide by_step;

  PoolAxis(const ConvAxis& axis, int64_t count)
      : size(axis.size),
        outputs(count),
        kernel(axis.kernel),
        step(axis.stride),
        pad(axis.pad),
        by_step(axis.stride) {}

  __device__ int64_t start(int64_t o) const { return o * step - pad; }
  __device__ int64_t first(int64_t o) const { return start(o) > 0 ? start(o) : 0; }
  __device__ int64_t end(int64_t o) const {
    return start(o) + kernel < size ? start(o) + kernel : size;
  }
  // Pixels that the divisor counts: with padding, up to the end of the padded image.
  __device__ int64_t counted(int64_t o, bool exclude_padding) const {
    if (exclude_padding) return end(o) - first(o);
    return (start(o) + kernel < size + pad ? start(o) + kernel : size + pad) - start(o);
  }
  __device__ int64_t first_window(int64_t p) const {
    const int64_t past = p + pad - kernel;  // the last pixel before the first window
    return past < 0 ? 0 : by_step.quotient(static_cast<typename Divide::Index>(past)) + 1;
  }
  __device__ int64_t end_window(int64_t p) const {
    const int64_t last = by_step.quotient(static_cast<typename Divide::Index>(p + pad)) + 1;
    return last < outputs ? last : outputs;
  }
};

template <class Divide>
struct PoolWindows {
  PoolAxis<Divide> h, w;
  Divide by_pixels, by_row;  // of outputs (forward) or of the image (backward)
  bool exclude_padding;

  __device__ float divisor(int64_t i, int64_t j) const {
    return static_cast<float>(h.counted(i, exclude_padding) * w.counted(j, exclude_padding));
  }
};

// A flat index taken apart.
struct Pixel {
  int64_t plane, row, column;
};

template <class Divide>
__device__ Pixel pixel_of(int64_t i, const PoolWindows<Divide>& windows, int64_t pixels,
                          int64_t width) {
  using Index = typename Divide::Index;
  const int64_t plane = windows.by_pixels.quotient(static_cast<Index>(i)),
                pixel = i - plane * pixels;
  const int64_t row = windows.by_row.quotient(static_cast<Index>(pixel));
  return {plane, row, pixel - row * width};
}

// The first maximum; a NaN counts as largest.
struct Largest {
  float value;
  int32_t at;
  __device__ void offer(float other, int32_t where) {
    const bool better = other > value || other != other;
    value = better ? other : value;
    at = better ? where : at;
  }
};

// One thread for each output. `places` (the second top) may be null.
template <class Divide>
__global__ void __launch_bounds__(kThreads)
    max_pool_forward_kernel(int64_t n, PoolWindows<Divide> windows, const float* x, float* y,
                            int32_t* index, float* places) {
  const int64_t pixels = windows.h.outputs * windows.w.outputs;
  const int64_t width = windows.w.size, image = windows.h.size * width;
  KINET_GRID_STRIDE(o, n) {
    const Pixel at = pixel_of(o, windows, pixels, windows.w.outputs);
    const float* plane = x + at.plane * image;
    const auto first_row = static_cast<int32_t>(windows.h.first(at.row));
    const auto end_row = static_cast<int32_t>(windows.h.end(at.row));
    const auto first = static_cast<int32_t>(windows.w.first(at.column));
    const auto end = static_cast<int32_t>(windows.w.end(at.column));
    const auto corner = static_cast<int32_t>(first_row * width + first);
    Largest best{plane[corner], corner};
    for (int32_t r = first_row; r < end_row; ++r) {
      for (int32_t c = first; c < end; ++c) {
        const auto here = static_cast<int32_t>(r * width + c);
        best.offer(plane[here], here);
      }
    }
    y[o] = best.value;
    index[o] = best.at;
    if (places != nullptr) places[o] = static_cast<float>(best.at);
  }
}

// Windows of 2x2 side by side, the most usual ones: a thread has two outputs of a row, and reads
// what belongs to them as one 128-bit access in each of two rows. windows.by_pixels and by_row
// divide pairs of outputs. REQUIRES: width a multiple of 4, no padding; x 16-byte, the others
// 8-byte aligned
template <class Divide>
__global__ void __launch_bounds__(kThreads)
    max_pool_pairs_kernel(int64_t n, PoolWindows<Divide> windows, const float* x, float* y,
                          int32_t* index, float* places) {
  const int64_t row_pairs = windows.w.outputs / 2, pairs = windows.h.outputs * row_pairs;
  const int64_t width = windows.w.size, image = windows.h.size * width;
  KINET_GRID_STRIDE(pair, n) {
    const Pixel at = pixel_of(pair, windows, pairs, row_pairs);
    const auto begin = static_cast<int32_t>(2 * at.row * width + 4 * at.column);
    const auto below = begin + static_cast<int32_t>(width);
    const float* plane = x + at.plane * image;
    const float4 upper = load_4(plane + begin);
    Largest left{upper.x, begin}, right{upper.z, begin + 2};
    left.offer(upper.x, begin), right.offer(upper.z, begin + 2);
    left.offer(upper.y, begin + 1), right.offer(upper.w, begin + 3);
    if (2 * at.row + 1 < windows.h.size) {
      const float4 lower = load_4(plane + below);
      left.offer(lower.x, below), right.offer(lower.z, below + 2);
      left.offer(lower.y, below + 1), right.offer(lower.w, below + 3);
    }
    reinterpret_cast<float2*>(y)[pair] = make_float2(left.value, right.value);
    reinterpret_cast<int2*>(index)[pair] = make_int2(left.at, right.at);
    if (places != nullptr) {
      reinterpret_cast<float2*>(places)[pair] =
          make_float2(static_cast<float>(left.at), static_cast<float>(right.at));
    }
  }
}

// One thread for each kWide pixels of a row of the image: it looks through the windows that contain
// any of them. REQUIRES: rows of the image are multiples of kWide
template <int kWide, class Divide>
__global__ void __launch_bounds__(kThreads)
    max_pool_backward_kernel(int64_t n, PoolWindows<Divide> windows, const float* dy,
                             const int32_t* index, float* dx) {
  const int64_t image = windows.h.size * windows.w.size;
  const int64_t out_w = windows.w.outputs, pixels = windows.h.outputs * out_w;
  KINET_GRID_STRIDE(group, n) {
    const int64_t i = group * kWide;
    const Pixel at = pixel_of(i, windows, image, windows.w.size);
    const auto self = static_cast<int32_t>(i - at.plane * image);
    const int64_t first = windows.w.first_window(at.column);
    const int64_t end = windows.w.end_window(at.column + kWide - 1);
    Wide<kWide> sum{};
    for (int64_t r = windows.h.first_window(at.row); r < windows.h.end_window(at.row); ++r) {
      const int64_t row = at.plane * pixels + r * out_w;
      for (int64_t c = first; c < end; ++c) {
        const int32_t which = index[row + c] - self;
        if (which < 0 || which >= kWide) continue;
        const float d = dy[row + c];
#pragma unroll
        for (int j = 0; j < kWide; ++j) sum.v[j] += which == j ? d : 0;
      }
    }
    store_wide(dx + i, sum);
  }
}

// One thread for each output.
template <class Divide>
__global__ void __launch_bounds__(kThreads)
    ave_pool_forward_kernel(int64_t n, PoolWindows<Divide> windows, const float* x, float* y) {
  const int64_t pixels = windows.h.outputs * windows.w.outputs;
  const int64_t width = windows.w.size, image = windows.h.size * width;
  KINET_GRID_STRIDE(o, n) {
    const Pixel at = pixel_of(o, windows, pixels, windows.w.outputs);
    const int64_t first = windows.w.first(at.column), end = windows.w.end(at.column);
    float sum = 0;
    for (int64_t r = windows.h.first(at.row); r < windows.h.end(at.row); ++r) {
      const float* row = x + at.plane * image + r * width;
      for (int64_t c = first; c < end; ++c) sum += row[c];
    }
    y[o] = sum / windows.divisor(at.row, at.column);
  }
}

// Large windows (global pooling): one warp for each output, neighbouring lanes read neighbouring
// pixels.
constexpr int64_t kLargeWindow = 36;  // pixels; below it a warp would mostly idle

template <class Divide>
__global__ void __launch_bounds__(kThreads)
    ave_pool_warp_kernel(int64_t n, PoolWindows<Divide> windows, const float* x, float* y) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t pixels = windows.h.outputs * windows.w.outputs;
  const int64_t width = windows.w.size, image = windows.h.size * width;
  const int64_t warps = int64_t{gridDim.x} * (kThreads / kWarp);
  for (int64_t o = int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp; o < n;
       o += warps) {
    const Pixel at = pixel_of(o, windows, pixels, windows.w.outputs);
    const int64_t first_row = windows.h.first(at.row), first = windows.w.first(at.column);
    const auto rows = static_cast<int32_t>(windows.h.end(at.row) - first_row);
    const auto columns = static_cast<int32_t>(windows.w.end(at.column) - first);
    const float* corner = x + at.plane * image + first_row * width + first;
    float sum = 0;
    for (int32_t t = lane; t < rows * columns; t += kWarp) {
      const int32_t r = t / columns;
      sum += corner[r * width + (t - r * columns)];
    }
    sum = warp_reduce(sum, Plus{});
    if (lane == 0) y[o] = sum / windows.divisor(at.row, at.column);
  }
}

// As max_pool_backward_kernel.
template <int kWide, class Divide>
__global__ void __launch_bounds__(kThreads)
    ave_pool_backward_kernel(int64_t n, PoolWindows<Divide> windows, const float* dy, float* dx) {
  const int64_t image = windows.h.size * windows.w.size;
  const int64_t out_w = windows.w.outputs, pixels = windows.h.outputs * out_w;
  KINET_GRID_STRIDE(group, n) {
    const int64_t i = group * kWide;
    const Pixel at = pixel_of(i, windows, image, windows.w.size);
    const int64_t first = windows.w.first_window(at.column);
    const int64_t end = windows.w.end_window(at.column + kWide - 1);
    Wide<kWide> sum{};
    for (int64_t r = windows.h.first_window(at.row); r < windows.h.end_window(at.row); ++r) {
      const float* row = dy + at.plane * pixels + r * out_w;
      for (int64_t c = first; c < end; ++c) {
        const float share = row[c] / windows.divisor(r, c);
        const int64_t from_start = at.column - windows.w.start(c);
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          const bool inside = from_start + j >= 0 && from_start + j < windows.w.kernel;
          sum.v[j] += inside ? share : 0;
        }
      }
    }
    store_wide(dx + i, sum);
  }
}

class CudaPooling : public PoolingLayer {
 public:
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const cudaStream_t stream = gpu_of(context).stream;
    if (fits(bottoms[0]->count())) {
      run_forward<FastDivide>(stream, bottoms, tops);
    } else {
      run_forward<LongDivide>(stream, bottoms, tops);
    }
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    if (!mask.bottom[0]) return;
    const cudaStream_t stream = gpu_of(context).stream;
    if (fits(bottoms[0]->count())) {
      run_backward<FastDivide>(stream, tops, bottoms);
    } else {
      run_backward<LongDivide>(stream, tops, bottoms);
    }
  }

 private:
  // Every number that is divided is below 2^31.
  bool fits(int64_t bottom_count) const {
    const ConvAxis &h = window().h, &w = window().w;
    return bottom_count < kFastDivideLimit && planes() * out_h() * out_w() < kFastDivideLimit &&
           h.size + h.pad < kFastDivideLimit && w.size + w.pad < kFastDivideLimit;
  }

  template <class Divide>
  PoolWindows<Divide> windows(int64_t pixels, int64_t row) const {
    return {PoolAxis<Divide>(window().h, out_h()), PoolAxis<Divide>(window().w, out_w()),
            Divide(pixels), Divide(row), excludes_padding()};
  }

  int32_t* index() { return reinterpret_cast<int32_t*>(index_.device_data()); }

  template <class Divide>
  void run_forward(cudaStream_t stream, Tensors bottoms, Tensors tops) {
    const int64_t n = planes() * out_h() * out_w();
    if (n == 0) return;
    const auto w = windows<Divide>(out_h() * out_w(), out_w());
    const float* x = bottoms[0]->device_data();
    float* y = tops[0]->device_data();
    if (method() == Method::kMax) {
      float* places = tops.size() > 1 ? tops[1]->device_data() : nullptr;
      if (in_pairs() && aligned_16(x) && aligned_16(y) && aligned_16(places)) {
        const auto pairs = windows<Divide>(out_h() * out_w() / 2, out_w() / 2);
        KINET_LAUNCH((max_pool_pairs_kernel<Divide>), blocks_for(n / 2), kThreads, 0, stream, n / 2,
                     pairs, x, y, index(), places);
      } else {
        KINET_LAUNCH((max_pool_forward_kernel<Divide>), blocks_for(n), kThreads, 0, stream, n, w, x,
                     y, index(), places);
      }
    } else if (window().taps() >= kLargeWindow) {
      KINET_LAUNCH((ave_pool_warp_kernel<Divide>), blocks_for(n, kThreads / kWarp), kThreads, 0,
                   stream, n, w, x, y);
    } else {
      KINET_LAUNCH((ave_pool_forward_kernel<Divide>), blocks_for(n), kThreads, 0, stream, n, w, x,
                   y);
    }
    KINET_CUDA_CHECK_LAUNCH();
  }

  // Windows of 2x2 side by side over rows of whole 128-bit groups.
  bool in_pairs() const {
    const ConvAxis &h = window().h, &w = window().w;
    const auto two = [](const ConvAxis& axis) {
      return axis.kernel == 2 && axis.stride == 2 && axis.pad == 0;
    };
    return two(h) && two(w) && w.size % 4 == 0;
  }

  template <class Divide>
  void run_backward(cudaStream_t stream, Tensors tops, Tensors bottoms) {
    if (bottoms[0]->count() == 0) return;
    if (window().w.size % 4 == 0 && aligned_16(bottoms[0]->device_diff())) {
      run_backward<4, Divide>(stream, tops, bottoms);
    } else {
      run_backward<1, Divide>(stream, tops, bottoms);
    }
    KINET_CUDA_CHECK_LAUNCH();
  }

  template <int kWide, class Divide>
  void run_backward(cudaStream_t stream, Tensors tops, Tensors bottoms) {
    const int64_t n = bottoms[0]->count() / kWide;
    const auto w = windows<Divide>(window().image(), window().w.size);
    const float* dy = tops[0]->device_diff();
    float* dx = bottoms[0]->device_diff();
    if (method() == Method::kMax) {
      KINET_LAUNCH((max_pool_backward_kernel<kWide, Divide>), blocks_for(n), kThreads, 0, stream, n,
                   w, dy, index(), dx);
    } else {
      KINET_LAUNCH((ave_pool_backward_kernel<kWide, Divide>), blocks_for(n), kThreads, 0, stream, n,
                   w, dy, dx);
    }
  }
};

KINET_REGISTER_CUDA_LAYER("Pooling", CudaPooling);

}  // namespace
}  // namespace kinet
