// y = sum_i c_i x_i over tensors of one shape: forward of Eltwise SUM and backward of Split.
//
// Up to kMostTerms inputs in one pass over memory; more in further passes, which begin with y.
// Shapes: every x_i and y hold n values. y may be the first input.
// Thread safety: launches on the stream it is given and does not wait.
#pragma once

#include <algorithm>
#include <vector>

#include "cuda/elementwise.h"

namespace kinet {

constexpr int kMostTerms = 6;

struct Terms {
  const float* x[kMostTerms];
  float c[kMostTerms];
  int count;
};

inline __device__ float4 times(float c, float4 x) {
  return make_float4(c * x.x, c * x.y, c * x.z, c * x.w);
}
inline __device__ float4 plus(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// The loops over terms have a constant bound, so that the table stays in constant memory.
template <class Unused = void>
__global__ void __launch_bounds__(kThreads)
    weighted_sum_kernel(int64_t n, int64_t groups, Terms terms, float* y) {
  KINET_GRID_STRIDE(i, groups) {
    float4 sum = times(terms.c[0], load_4(terms.x[0] + 4 * i));
#pragma unroll
    for (int t = 1; t < kMostTerms; ++t) {
      if (t < terms.count) sum = plus(sum, times(terms.c[t], load_4(terms.x[t] + 4 * i)));
    }
    store_4(y + 4 * i, sum);
  }
  KINET_GRID_STRIDE(rest, n - 4 * groups) {
    const int64_t i = 4 * groups + rest;
    float sum = terms.c[0] * terms.x[0][i];
#pragma unroll
    for (int t = 1; t < kMostTerms; ++t) {
      if (t < terms.count) sum += terms.c[t] * terms.x[t][i];
    }
    y[i] = sum;
  }
}

// REQUIRES: x not empty, as many factors as inputs
inline void weighted_sum(cudaStream_t stream, int64_t n, const std::vector<const float*>& x,
                         const std::vector<float>& factors, float* y) {
  if (n == 0) return;
  for (size_t next = 0; next < x.size();) {
    Terms terms{};
    if (next > 0) {
      terms.x[0] = y;
      terms.c[0] = 1;
      terms.count = 1;
    }
    bool aligned = aligned_16(y);
    for (; terms.count < kMostTerms && next < x.size(); ++next, ++terms.count) {
      terms.x[terms.count] = x[next];
      terms.c[terms.count] = factors[next];
      aligned = aligned && aligned_16(x[next]);
    }
    const int64_t groups = aligned ? n / 4 : 0;
    KINET_LAUNCH((weighted_sum_kernel<void>), blocks_for(aligned ? groups : n), kThreads, 0, stream,
                 n, groups, terms, y);
    KINET_CUDA_CHECK_LAUNCH();
  }
}

}  // namespace kinet
