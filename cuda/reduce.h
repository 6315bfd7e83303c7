// Sums and maxima over the threads of a warp and of a block, in an order that never changes: the
// same bits in every run, and no atomics.
//
// A warp adds by a butterfly of shuffles (5 steps, all lanes end with the total); warps meet in
// shared memory. Every thread of the warp or block must call.
// Reference: NVIDIA, "CUDA C++ programming guide", warp shuffle functions.
#pragma once

#include "cuda/gpu.h"

namespace kinet {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
  static __device__ float neutral() { return 0; }
};

// A NaN wins, so that it is seen further on.
struct Larger {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
  static __device__ float neutral() { return -INFINITY; }
};

// The result of `op` over the 32 lanes, in all lanes.
template <class Op>
__device__ float warp_reduce(float value, Op op) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, lanes));
  }
  return value;
}

// The result over a block of kBlock threads in one dimension, in all threads. May be called again
// at once: the last barrier protects the shared buffer.
template <int kBlock, class Op>
__device__ float block_reduce(float value, Op op) {
  static_assert(kBlock % kWarp == 0 && kBlock <= kWarp * kWarp);
  constexpr int kWarps = kBlock / kWarp;
  __shared__ float of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  value = warp_reduce(value, op);
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < kWarps ? of_warp[lane] : Op::neutral(), op);
  __syncthreads();
  return value;
}

}  // namespace kinet
