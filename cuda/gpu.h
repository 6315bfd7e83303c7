// The only CUDA header that kernels include. Two things differ from plain CUDA:
//
//   KINET_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...);
//   KINET_LAUNCH((tile_kernel<16, 16>), grid, block, 0, stream, ...);   // commas: in parentheses
//
//   __global__ void row_kernel(...) {
//     KINET_DYN_SHARED(float, row);   // float* row: the launch's dynamic shared memory
//
// Under nvcc this is the CUDA runtime. Elsewhere it is the host emulation (cuda/emulation/), which
// runs the same kernels on the CPU and knows launches and shared memory only through these macros;
// tools/lint_files.py forbids the plain forms. A launch is checked with cudaGetLastError() as
// usual.
#pragma once

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define KINET_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)

// One array of bytes for all kernels: nvcc refuses extern arrays of one name and different types.
// 16 bytes: the widest access that a thread makes.
#define KINET_DYN_SHARED(T, name)                                         \
  extern __shared__ __align__(16) unsigned char kinet_dyn_shared_bytes[]; \
  T* const name = reinterpret_cast<T*>(kinet_dyn_shared_bytes)

#else

#include "cuda/emulation/device.h"

#define KINET_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                               \
  kinet::emulation::launch(kernel, {#kernel, __FILE__, __LINE__}, (grid), (block), (shared_bytes), \
                           (stream)__VA_OPT__(, ) __VA_ARGS__)

#define KINET_DYN_SHARED(T, name) \
  T* const name = reinterpret_cast<T*>(kinet::emulation::dynamic_shared_memory())

#endif
