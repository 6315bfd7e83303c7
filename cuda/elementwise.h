// Elementwise kernels: y[i] = f(x[i]) and y[i] = f(a[i], b[i]), for any function object f.
//
// Four values at a time (128-bit accesses) when every pointer allows it; the rest, and unaligned
// tensors, one by one. Memory bound: 4 bytes read for each input and 4 written for each value.
// In place (y equal to an input) is allowed: a thread reads a value before it overwrites it.
// Thread safety: functions launch on the stream they are given and do not wait.
#pragma once

#include <cstdint>

#include "cuda/layer.h"

namespace kinet {

inline bool aligned_16(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// How many groups of four values can be accessed as one: all of them or none.
template <class... Pointers>
int64_t groups_of_4(int64_t n, Pointers... pointers) {
  return (aligned_16(pointers) && ...) ? n / 4 : 0;
}

inline __device__ float4 load_4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
inline __device__ void store_4(float* to, float4 values) {
  *reinterpret_cast<float4*>(to) = values;
}

// Neighbouring values, as one access where they are four: for kernels whose index is more than a
// place in a row of values.
template <int kWide>
struct Wide {
  static_assert(kWide == 1 || kWide == 4);
  float v[kWide];
};
template <int kWide>
__device__ Wide<kWide> load_wide(const float* from) {
  if constexpr (kWide == 4) {
    const float4 four = load_4(from);
    return {{four.x, four.y, four.z, four.w}};
  } else {
    return {{*from}};
  }
}
template <int kWide>
__device__ void store_wide(float* to, const Wide<kWide>& values) {
  if constexpr (kWide == 4) {
    store_4(to, make_float4(values.v[0], values.v[1], values.v[2], values.v[3]));
  } else {
    *to = values.v[0];
  }
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    map_1_kernel(int64_t n, int64_t groups, F f, const float* x, float* y) {
  KINET_GRID_STRIDE(i, groups) {
    const float4 v = load_4(x + 4 * i);
    store_4(y + 4 * i, make_float4(f(v.x), f(v.y), f(v.z), f(v.w)));
  }
  KINET_GRID_STRIDE(i, n - 4 * groups) {
    const int64_t at = 4 * groups + i;
    y[at] = f(x[at]);
  }
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    map_2_kernel(int64_t n, int64_t groups, F f, const float* a, const float* b, float* y) {
  KINET_GRID_STRIDE(i, groups) {
    const float4 u = load_4(a + 4 * i), v = load_4(b + 4 * i);
    store_4(y + 4 * i, make_float4(f(u.x, v.x), f(u.y, v.y), f(u.z, v.z), f(u.w, v.w)));
  }
  KINET_GRID_STRIDE(i, n - 4 * groups) {
    const int64_t at = 4 * groups + i;
    y[at] = f(a[at], b[at]);
  }
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    map_3_kernel(int64_t n, int64_t groups, F f, const float* a, const float* b, const float* c,
                 float* y) {
  KINET_GRID_STRIDE(i, groups) {
    const float4 u = load_4(a + 4 * i), v = load_4(b + 4 * i), w = load_4(c + 4 * i);
    store_4(y + 4 * i,
            make_float4(f(u.x, v.x, w.x), f(u.y, v.y, w.y), f(u.z, v.z, w.z), f(u.w, v.w, w.w)));
  }
  KINET_GRID_STRIDE(i, n - 4 * groups) {
    const int64_t at = 4 * groups + i;
    y[at] = f(a[at], b[at], c[at]);
  }
}

// y = f(x) over n values.
template <class F>
void map_values(cudaStream_t stream, int64_t n, F f, const float* x, float* y) {
  if (n == 0) return;
  const int64_t groups = groups_of_4(n, x, y);
  KINET_LAUNCH((map_1_kernel<F>), blocks_for(groups > 0 ? groups : n), kThreads, 0, stream, n,
               groups, f, x, y);
  KINET_CUDA_CHECK_LAUNCH();
}

// y = f(a, b) over n values.
template <class F>
void map_values(cudaStream_t stream, int64_t n, F f, const float* a, const float* b, float* y) {
  if (n == 0) return;
  const int64_t groups = groups_of_4(n, a, b, y);
  KINET_LAUNCH((map_2_kernel<F>), blocks_for(groups > 0 ? groups : n), kThreads, 0, stream, n,
               groups, f, a, b, y);
  KINET_CUDA_CHECK_LAUNCH();
}

// y = f(a, b, c) over n values.
template <class F>
void map_values(cudaStream_t stream, int64_t n, F f, const float* a, const float* b, const float* c,
                float* y) {
  if (n == 0) return;
  const int64_t groups = groups_of_4(n, a, b, c, y);
  KINET_LAUNCH((map_3_kernel<F>), blocks_for(groups > 0 ? groups : n), kThreads, 0, stream, n,
               groups, f, a, b, c, y);
  KINET_CUDA_CHECK_LAUNCH();
}

// y[i] = value, without reading y (fill.cu).
void fill_values(cudaStream_t stream, int64_t n, float value, float* y);

// f(x) = c x
struct Times {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};

// Copies without a kernel; nothing to do when both are one.
inline void copy_values(cudaStream_t stream, int64_t n, const float* from, float* to) {
  if (n == 0 || from == to) return;
  KINET_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<size_t>(n) * sizeof(float),
                                   cudaMemcpyDeviceToDevice, stream));
}

}  // namespace kinet
