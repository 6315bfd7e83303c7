// Copies from global to shared memory that a thread does not wait for (cp.async, from sm_80 on).
//
// Use: copy ... copy; async_commit(); work; async_wait_all(); __syncthreads(). Where the hardware
// has no such copies, and in the emulation, each copy is done at once and the waits are empty: the
// same program, with nothing overlapped. Thread safety: a thread sees its own copies after
// async_wait_all(), those of others after a barrier that follows it. Reference: CUDA C++
// Programming Guide, asynchronous data copies; PTX ISA, cp.async.
#pragma once

#include "cuda/gpu.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define KINET_HAS_ASYNC_COPY 1
#else
#define KINET_HAS_ASYNC_COPY 0
#endif

namespace kinet {

#if KINET_HAS_ASYNC_COPY

// One float, or 0 where `valid` is false; `from` is then not read.
__device__ __forceinline__ void copy_float_async(float* to, const float* from, bool valid) {
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared), "l"(from), "r"(bytes)
               : "memory");
}

// Four floats, both sides 16-byte aligned, or 0 where `valid` is false.
__device__ __forceinline__ void copy_float4_async(float* to, const float* from, bool valid) {
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(from),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
__device__ __forceinline__ void async_wait_all() {
  asm volatile("cp.async.wait_all;\n" ::: "memory");
}

#else

__device__ __forceinline__ void copy_float_async(float* to, const float* from, bool valid) {
  *to = valid ? *from : 0.f;
}

__device__ __forceinline__ void copy_float4_async(float* to, const float* from, bool valid) {
  *reinterpret_cast<float4*>(to) =
      valid ? *reinterpret_cast<const float4*>(from) : make_float4(0.f, 0.f, 0.f, 0.f);
}

__device__ __forceinline__ void async_commit() {}
__device__ __forceinline__ void async_wait_all() {}

#endif

}  // namespace kinet
