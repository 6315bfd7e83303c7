// Kernels over tensors whose values belong to channels: what PReLU, Scale, Bias and BatchNorm are
// made of. The host's counterpart is src/math/broadcast.h.
//
// Shapes: tensors are outer x count x inner (struct Broadcast), vectors have `count` entries.
//   map_channels   y = f(channel, a, b) for every value
//   ChannelSums    for every channel the sums over outer and inner of two functions of (a, b)
//
// Sums are made in two stages without atomics, in an order that depends on the sizes alone: blocks
// sum parts of a channel into a workspace, then one warp for each channel adds the parts. Thread
// safety: functions launch on the stream they are given and do not wait.
#pragma once

#include <algorithm>

#include "cuda/divide.h"
#include "cuda/elementwise.h"
#include "cuda/reduce.h"
#include "src/math/broadcast.h"

namespace kinet {

// ---- maps ---------------------------------------------------------------------------------------

enum class Lanes {
  kOne,         // value by value
  kOneChannel,  // four at once, of one channel: inner is a multiple of 4
  kNeighbours,  // four at once, of four channels: inner is 1, count a multiple of 4
};

// y[i] = f(c, a[i], b[i]), c = i / inner mod count. y may be a or b.
template <class F, Lanes kLanes, class Divide>
__global__ void __launch_bounds__(kThreads)
    map_channels_kernel(int64_t n, Divide inner, Divide count, F f, const float* a, const float* b,
                        float* y) {
  using Index = typename Divide::Index;
  if constexpr (kLanes == Lanes::kOne) {
    KINET_GRID_STRIDE(i, n) {
      const Index c = count.remainder(inner.quotient(static_cast<Index>(i)));
      y[i] = f(c, a[i], b[i]);
    }
  } else {
    constexpr Index kNext = kLanes == Lanes::kNeighbours ? 1 : 0;
    KINET_GRID_STRIDE(i, n / 4) {
      const Index c = count.remainder(inner.quotient(static_cast<Index>(4 * i)));
      const float4 u = load_4(a + 4 * i), v = load_4(b + 4 * i);
      store_4(y + 4 * i, make_float4(f(c, u.x, v.x), f(c + kNext, u.y, v.y),
                                     f(c + 2 * kNext, u.z, v.z), f(c + 3 * kNext, u.w, v.w)));
    }
  }
}

template <class F, Lanes kLanes, class Divide>
void launch_map_channels(cudaStream_t stream, const Broadcast& shape, F f, const float* a,
                         const float* b, float* y) {
  const int64_t n = shape.outer * shape.count * shape.inner;
  KINET_LAUNCH((map_channels_kernel<F, kLanes, Divide>),
               blocks_for(kLanes == Lanes::kOne ? n : n / 4), kThreads, 0, stream, n,
               Divide(shape.inner), Divide(shape.count), f, a, b, y);
  KINET_CUDA_CHECK_LAUNCH();
}

// f is called as f(channel, a, b); an f that ignores b does not read it.
template <class F>
void map_channels(cudaStream_t stream, const Broadcast& shape, F f, const float* a, const float* b,
                  float* y) {
  const int64_t n = shape.outer * shape.count * shape.inner;
  const bool aligned = aligned_16(a) && aligned_16(b) && aligned_16(y);
  if (n == 0) return;
  if (n > kFastDivideLimit) {
    launch_map_channels<F, Lanes::kOne, LongDivide>(stream, shape, f, a, b, y);
  } else if (aligned && shape.inner % 4 == 0) {
    launch_map_channels<F, Lanes::kOneChannel, FastDivide>(stream, shape, f, a, b, y);
  } else if (aligned && shape.inner == 1 && shape.count % 4 == 0) {
    launch_map_channels<F, Lanes::kNeighbours, FastDivide>(stream, shape, f, a, b, y);
  } else {
    launch_map_channels<F, Lanes::kOne, FastDivide>(stream, shape, f, a, b, y);
  }
}

// ---- sums, first stage --------------------------------------------------------------------------

constexpr int kSumWarps = kThreads / kWarp;
constexpr int64_t kPiece = 1024;        // floats of a row that a warp sums at once; a multiple of 4
constexpr int64_t kNarrow = 32;         // shorter rows (inner) go by columns
constexpr int64_t kBlocksWanted = 512;  // about what fills a device twice

// How a shape is summed: so many blocks share a channel (or 32 of them).
struct SumPlan {
  bool columns = false;
  unsigned channel_blocks = 1, splits = 1;

  SumPlan() = default;
  explicit SumPlan(const Broadcast& shape) {
    columns = shape.inner < kNarrow;
    const int64_t blocks = columns ? (shape.count + kWarp - 1) / kWarp : shape.count;
    const int64_t rows = columns ? shape.outer : shape.outer * pieces(shape);
    const int64_t useful = (rows + kSumWarps - 1) / kSumWarps;  // every warp has one row at least
    channel_blocks = static_cast<unsigned>(std::max<int64_t>(1, blocks));
    splits = static_cast<unsigned>(
        std::clamp<int64_t>(useful, 1, std::max<int64_t>(1, kBlocksWanted / channel_blocks)));
  }
  static int64_t pieces(const Broadcast& shape) { return (shape.inner + kPiece - 1) / kPiece; }
  // Floats of the workspace: two sums for each part of each channel.
  size_t floats(const Broadcast& shape) const {
    return 2 * static_cast<size_t>(splits) * static_cast<size_t>(shape.count);
  }
};

inline __device__ float2 plus(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }

// Rows of at least kNarrow values: grid.x over channels, grid.y over parts; a warp sums a piece of
// a row at a time. parts: splits x count. kFour: inner is a multiple of 4, all aligned.
template <class F, bool kFour>
__global__ void __launch_bounds__(kThreads)
    sum_rows_kernel(Broadcast shape, F f, const float* a, const float* b, float2* parts) {
  const int64_t c = blockIdx.x, pieces = (shape.inner + kPiece - 1) / kPiece;
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  f.begin(c);
  float2 sum = make_float2(0, 0);
  for (int64_t row = int64_t{blockIdx.y} * kSumWarps + warp; row < shape.outer * pieces;
       row += int64_t{gridDim.y} * kSumWarps) {
    const int64_t o = row / pieces, start = (row - o * pieces) * kPiece;
    const int64_t left = shape.inner - start, length = left < kPiece ? left : kPiece;
    const int64_t at = (o * shape.count + c) * shape.inner + start;
    if constexpr (kFour) {
      for (int64_t i = 4 * lane; i < length; i += 4 * kWarp) {
        const float4 u = load_4(a + at + i), v = load_4(b + at + i);
        sum = plus(sum, plus(plus(f(u.x, v.x), f(u.y, v.y)), plus(f(u.z, v.z), f(u.w, v.w))));
      }
    } else {
      for (int64_t i = lane; i < length; i += kWarp) sum = plus(sum, f(a[at + i], b[at + i]));
    }
  }
  sum.x = block_reduce<kThreads>(sum.x, Plus{});
  sum.y = block_reduce<kThreads>(sum.y, Plus{});
  if (threadIdx.x == 0) parts[blockIdx.y * shape.count + c] = sum;
}

// Short rows: a lane has a channel, so that neighbours read neighbours; a block is 32 channels x 8
// outer indices, which meet in shared memory.
template <class F>
__global__ void __launch_bounds__(kThreads)
    sum_columns_kernel(Broadcast shape, F f, const float* a, const float* b, float2* parts) {
  __shared__ float2 of_row[kSumWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t c = int64_t{blockIdx.x} * kWarp + lane;
  float2 sum = make_float2(0, 0);
  if (c < shape.count) {
    f.begin(c);
    for (int64_t o = int64_t{blockIdx.y} * kSumWarps + warp; o < shape.outer;
         o += int64_t{gridDim.y} * kSumWarps) {
      const int64_t at = (o * shape.count + c) * shape.inner;
      for (int64_t i = 0; i < shape.inner; ++i) sum = plus(sum, f(a[at + i], b[at + i]));
    }
  }
  of_row[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || c >= shape.count) return;
#pragma unroll
  for (int w = 1; w < kSumWarps; ++w) sum = plus(sum, of_row[w][lane]);
  parts[blockIdx.y * shape.count + c] = sum;
}

// ---- sums, second stage -------------------------------------------------------------------------

// finish(c, sums of channel c), by one lane of a warp that adds the parts.
template <class Finish>
__global__ void __launch_bounds__(kThreads)
    finish_sums_kernel(int64_t count, int splits, const float2* parts, Finish finish) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t c = int64_t{blockIdx.x} * kSumWarps + warp; c < count;
       c += int64_t{gridDim.x} * kSumWarps) {
    float2 sum = make_float2(0, 0);
    for (int64_t s = lane; s < splits; s += kWarp) sum = plus(sum, parts[s * count + c]);
    sum.x = warp_reduce(sum.x, Plus{});
    sum.y = warp_reduce(sum.y, Plus{});
    if (lane == 0) finish(c, sum);
  }
}

// finish(c, s), s.x and s.y the sums over channel c of what f(a, b) returns; f.begin(c) is called
// first. `parts`: SumPlan(shape).floats(shape) floats. f may ignore b, which must be readable.
template <class F, class Finish>
void sum_channels(cudaStream_t stream, const Broadcast& shape, F f, const float* a, const float* b,
                  float* workspace, Finish finish) {
  if (shape.count == 0) return;
  const SumPlan plan(shape);
  const dim3 grid(plan.channel_blocks, plan.splits);
  auto* parts = reinterpret_cast<float2*>(workspace);
  if (plan.columns) {
    KINET_LAUNCH((sum_columns_kernel<F>), grid, kThreads, 0, stream, shape, f, a, b, parts);
  } else if (shape.inner % 4 == 0 && aligned_16(a) && aligned_16(b)) {
    KINET_LAUNCH((sum_rows_kernel<F, true>), grid, kThreads, 0, stream, shape, f, a, b, parts);
  } else {
    KINET_LAUNCH((sum_rows_kernel<F, false>), grid, kThreads, 0, stream, shape, f, a, b, parts);
  }
  KINET_CUDA_CHECK_LAUNCH();
  KINET_LAUNCH((finish_sums_kernel<Finish>), blocks_for(shape.count, kSumWarps), kThreads, 0,
               stream, shape.count, static_cast<int>(plan.splits), parts, finish);
  KINET_CUDA_CHECK_LAUNCH();
}

// ---- what several layers sum --------------------------------------------------------------------

// (a b, a): the gradients of a factor and of an addend, when a = dy and b = x.
struct ProductAndValue {
  __device__ void begin(int64_t) {}
  __device__ float2 operator()(float a, float b) const { return make_float2(a * b, a); }
};

// (0, a), without reading b.
struct ValueOnly {
  __device__ void begin(int64_t) {}
  __device__ float2 operator()(float a, float) const { return make_float2(0, a); }
};

// Where sums go: to.x first sums, to.y second ones; null where nobody wants them. `add` says
// whether they are added to what is there (parameters) or replace it (bottoms).
struct Gradients {
  float *first, *second;
  bool add_first, add_second;
  __device__ void operator()(int64_t c, float2 sums) const {
    if (first != nullptr) first[c] = add_first ? first[c] + sums.x : sums.x;
    if (second != nullptr) second[c] = add_second ? second[c] + sums.y : sums.y;
  }
};

}  // namespace kinet
