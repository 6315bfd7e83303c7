// The kernels of Softmax and SoftmaxWithLoss.
//
// Equation: y_c = exp(x_c - m) / s, m = max_c x_c, s = sum_c exp(x_c - m);
//   dx_c = y_c (dy_c - sum_k dy_k y_k).
// Shapes: outer x classes x inner. A position is one (outer, inner): its classes lie `inner` apart.
//   inner == 1: a row of classes is dense; 32 threads share a short one, 256 a long one.
//   else: one thread for each position, neighbours side by side.
// Every value is read three times, from memory once: rows and the columns of a block fit the cache.
// In place is allowed. Thread safety: functions launch on the stream they are given and do not
// wait.
#pragma once

#include "cuda/divide.h"
#include "cuda/elementwise.h"
#include "cuda/reduce.h"

namespace kinet {

struct SoftmaxShape {
  int64_t outer, classes, inner;
  int64_t positions() const { return outer * inner; }
};

constexpr int64_t kShortRow = 512;  // classes: up to 16 for each lane of a warp

// ---- dense rows, kLanes threads each ------------------------------------------------------------

// f(a, b) for the values of a row that belong to this lane, the same ones in every pass: in place,
// a lane overwrites only what it alone has read. kFour: n is a multiple of 4, a and b are aligned.
template <int kLanes, bool kFour, class F>
__device__ void read_row(int lane, int64_t n, const float* a, const float* b, F f) {
  if constexpr (kFour) {
    for (int64_t i = 4 * lane; i < n; i += 4 * kLanes) {
      const float4 u = load_4(a + i), v = load_4(b + i);
      f(u.x, v.x), f(u.y, v.y), f(u.z, v.z), f(u.w, v.w);
    }
  } else {
    for (int64_t i = lane; i < n; i += kLanes) f(a[i], b[i]);
  }
}

// y = f(a, b)
template <int kLanes, bool kFour, class F>
__device__ void map_row(int lane, int64_t n, const float* a, const float* b, float* y, F f) {
  if constexpr (kFour) {
    for (int64_t i = 4 * lane; i < n; i += 4 * kLanes) {
      const float4 u = load_4(a + i), v = load_4(b + i);
      store_4(y + i, make_float4(f(u.x, v.x), f(u.y, v.y), f(u.z, v.z), f(u.w, v.w)));
    }
  } else {
    for (int64_t i = lane; i < n; i += kLanes) y[i] = f(a[i], b[i]);
  }
}

template <int kLanes, class Op>
__device__ float row_reduce(float value, Op op) {
  if constexpr (kLanes == kWarp) {
    return warp_reduce(value, op);
  } else {
    return block_reduce<kLanes>(value, op);
  }
}

// done(row, m, s) is called once for each row.
template <int kLanes, bool kFour, class Done>
__global__ void __launch_bounds__(kThreads)
    softmax_rows_kernel(int64_t rows, int64_t classes, const float* x, float* y, Done done) {
  constexpr int kRows = kThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.x / kLanes; row < rows;
       row += int64_t{gridDim.x} * kRows) {
    const float* in = x + row * classes;
    float max = Larger::neutral(), sum = 0;
    read_row<kLanes, kFour>(lane, classes, in, in, [&](float v, float) { max = Larger{}(max, v); });
    max = row_reduce<kLanes>(max, Larger{});
    read_row<kLanes, kFour>(lane, classes, in, in, [&](float v, float) { sum += expf(v - max); });
    sum = row_reduce<kLanes>(sum, Plus{});
    if (lane == 0) done(row, max, sum);
    map_row<kLanes, kFour>(lane, classes, in, in, y + row * classes,
                           [&](float v, float) { return expf(v - max) / sum; });
  }
}

template <int kLanes, bool kFour>
__global__ void __launch_bounds__(kThreads)
    softmax_rows_backward_kernel(int64_t rows, int64_t classes, const float* y, const float* dy,
                                 float* dx) {
  constexpr int kRows = kThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.x / kLanes; row < rows;
       row += int64_t{gridDim.x} * kRows) {
    const float *p = y + row * classes, *dp = dy + row * classes;
    float dot = 0;
    read_row<kLanes, kFour>(lane, classes, p, dp, [&](float v, float dv) { dot += v * dv; });
    dot = row_reduce<kLanes>(dot, Plus{});
    map_row<kLanes, kFour>(lane, classes, p, dp, dx + row * classes,
                           [&](float v, float dv) { return v * (dv - dot); });
  }
}

// ---- strided positions, one thread each ---------------------------------------------------------

template <class Divide, class Done>
__global__ void __launch_bounds__(kThreads)
    softmax_columns_kernel(SoftmaxShape shape, Divide inner, const float* x, float* y, Done done) {
  KINET_GRID_STRIDE(p, shape.outer * shape.inner) {
    const int64_t o = inner.quotient(static_cast<typename Divide::Index>(p));
    const int64_t begin = o * shape.classes * shape.inner + (p - o * shape.inner);
    const int64_t end = begin + shape.classes * shape.inner;
    float max = x[begin], sum = 0;
    for (int64_t at = begin + shape.inner; at < end; at += shape.inner) max = Larger{}(max, x[at]);
    for (int64_t at = begin; at < end; at += shape.inner) sum += expf(x[at] - max);
    done(p, max, sum);
    for (int64_t at = begin; at < end; at += shape.inner) y[at] = expf(x[at] - max) / sum;
  }
}

template <class Divide>
__global__ void __launch_bounds__(kThreads)
    softmax_columns_backward_kernel(SoftmaxShape shape, Divide inner, const float* y,
                                    const float* dy, float* dx) {
  KINET_GRID_STRIDE(p, shape.outer * shape.inner) {
    const int64_t o = inner.quotient(static_cast<typename Divide::Index>(p));
    const int64_t begin = o * shape.classes * shape.inner + (p - o * shape.inner);
    const int64_t end = begin + shape.classes * shape.inner;
    float dot = 0;
    for (int64_t at = begin; at < end; at += shape.inner) dot += y[at] * dy[at];
    for (int64_t at = begin; at < end; at += shape.inner) dx[at] = y[at] * (dy[at] - dot);
  }
}

// ---- the choice between them --------------------------------------------------------------------

template <int kLanes, bool kFour, class Done>
void launch_softmax_rows(cudaStream_t stream, const SoftmaxShape& s, const float* x, float* y,
                         Done done) {
  KINET_LAUNCH((softmax_rows_kernel<kLanes, kFour, Done>), blocks_for(s.outer, kThreads / kLanes),
               kThreads, 0, stream, s.outer, s.classes, x, y, done);
}

template <class Done>
void softmax_forward(cudaStream_t stream, const SoftmaxShape& s, const float* x, float* y,
                     Done done) {
  if (s.positions() * s.classes == 0) return;
  const bool four = s.classes % 4 == 0 && aligned_16(x) && aligned_16(y);
  if (s.inner == 1 && s.classes <= kShortRow) {
    if (four) launch_softmax_rows<kWarp, true>(stream, s, x, y, done);
    if (!four) launch_softmax_rows<kWarp, false>(stream, s, x, y, done);
  } else if (s.inner == 1) {
    if (four) launch_softmax_rows<kThreads, true>(stream, s, x, y, done);
    if (!four) launch_softmax_rows<kThreads, false>(stream, s, x, y, done);
  } else if (s.positions() <= kFastDivideLimit) {
    KINET_LAUNCH((softmax_columns_kernel<FastDivide, Done>), blocks_for(s.positions()), kThreads, 0,
                 stream, s, FastDivide(s.inner), x, y, done);
  } else {
    KINET_LAUNCH((softmax_columns_kernel<LongDivide, Done>), blocks_for(s.positions()), kThreads, 0,
                 stream, s, LongDivide(s.inner), x, y, done);
  }
  KINET_CUDA_CHECK_LAUNCH();
}

template <int kLanes, bool kFour>
void launch_softmax_rows_backward(cudaStream_t stream, const SoftmaxShape& s, const float* y,
                                  const float* dy, float* dx) {
  KINET_LAUNCH((softmax_rows_backward_kernel<kLanes, kFour>),
               blocks_for(s.outer, kThreads / kLanes), kThreads, 0, stream, s.outer, s.classes, y,
               dy, dx);
}

inline void softmax_backward(cudaStream_t stream, const SoftmaxShape& s, const float* y,
                             const float* dy, float* dx) {
  if (s.positions() * s.classes == 0) return;
  const bool four = s.classes % 4 == 0 && aligned_16(y) && aligned_16(dy) && aligned_16(dx);
  if (s.inner == 1 && s.classes <= kShortRow) {
    if (four) launch_softmax_rows_backward<kWarp, true>(stream, s, y, dy, dx);
    if (!four) launch_softmax_rows_backward<kWarp, false>(stream, s, y, dy, dx);
  } else if (s.inner == 1) {
    if (four) launch_softmax_rows_backward<kThreads, true>(stream, s, y, dy, dx);
    if (!four) launch_softmax_rows_backward<kThreads, false>(stream, s, y, dy, dx);
  } else if (s.positions() <= kFastDivideLimit) {
    KINET_LAUNCH((softmax_columns_backward_kernel<FastDivide>), blocks_for(s.positions()), kThreads,
                 0, stream, s, FastDivide(s.inner), y, dy, dx);
  } else {
    KINET_LAUNCH((softmax_columns_backward_kernel<LongDivide>), blocks_for(s.positions()), kThreads,
                 0, stream, s, LongDivide(s.inner), y, dy, dx);
  }
  KINET_CUDA_CHECK_LAUNCH();
}

}  // namespace kinet
