// Kernels whose machine code is known: tools/cuda_static_table.py counts instructions by opcode
// numbers that NVIDIA does not document, and first looks whether it finds here what is written
// here. Only nvcc compiles this file.
#include "cuda/gpu.h"

namespace {

template <class T>
__device__ void copy(T* to, const T* from) {
  to[threadIdx.x] = from[threadIdx.x];
}

}  // namespace

extern "C" {

__global__ void probe_copy32(float* to, const float* from) { copy(to, from); }
__global__ void probe_copy64(float2* to, const float2* from) { copy(to, from); }
__global__ void probe_copy128(float4* to, const float4* from) { copy(to, from); }

__global__ void probe_shared128(float4* to, const float4* from) {
  __shared__ float4 tile[64];
  tile[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// All three operands in registers; with constants the opcode is another one.
__global__ void probe_ffma(float* value, const float4* factors) {
  float x = value[threadIdx.x];
  const float4 f = factors[threadIdx.x];
#pragma unroll
  for (int i = 0; i < 16; ++i) x = fmaf(x, f.x, f.y);
  value[threadIdx.x] = x;
}

__global__ void probe_shuffle(float* value) {
  value[threadIdx.x] = __shfl_xor_sync(0xffffffffu, value[threadIdx.x], 1);
}

__global__ void probe_reduction(float* sum) { atomicAdd(sum + threadIdx.x, 1.5f); }

__global__ void probe_async128(float4* to, const float4* from) {
  __shared__ float4 tile[64];
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(shared), "l"(from + threadIdx.x)
               : "memory");
  asm volatile("cp.async.wait_all;\n" ::: "memory");
  to[threadIdx.x] = tile[threadIdx.x];
}

__global__ void probe_mma(float4* c, const uint4* a, const uint2* b) {
  float4 d = c[threadIdx.x];
  const uint4 x = a[threadIdx.x];
  const uint2 y = b[threadIdx.x];
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d.x), "+f"(d.y), "+f"(d.z), "+f"(d.w)
      : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y));
  c[threadIdx.x] = d;
}

}  // extern "C"
