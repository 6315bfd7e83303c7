// Small matrix products of one warp: C (16 x 8) += A (16 x K) B (K x 8) on the tensor cores.
//
// Each lane holds a few elements. With g = lane / 4 and t = lane % 4:
//   C  c[0] = C[g][2t], c[1] = C[g][2t + 1], c[2] = C[g + 8][2t], c[3] = C[g + 8][2t + 1]
//   tf32, K = 8   a[0] = A[g][t], a[1] = A[g + 8][t], a[2] = A[g][t + 4], a[3] = A[g + 8][t + 4]
//                 b[0] = B[t][g], b[1] = B[t + 4][g]
//   bf16, K = 16  a[0] = A[g][2t, 2t + 1], a[1] = A[g + 8][2t, ..], a[2] = A[g][2t + 8, ..],
//                 a[3] = A[g + 8][2t + 8, ..];  b[0] = B[2t, 2t + 1][g], b[1] = B[2t + 8, ..][g]
//                 (the first of a pair in the lower half)
// Products are exact and sums in float32, as far as NVIDIA tells. The plain variant, for older
// devices and for the emulation, gets the elements of other lanes by shuffles: it computes what the
// layout above says, so that a wrong layout in a kernel gives wrong numbers there too. All 32 lanes
// must call together. Reference: PTX ISA, warp-level matrix instructions, mma.m16n8k8 and
// mma.m16n8k16.
#pragma once

#include <cstdint>

#include "cuda/gpu.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define KINET_HAS_MMA 1
#else
#define KINET_HAS_MMA 0
#endif

namespace kinet {

__device__ __forceinline__ uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
__device__ __forceinline__ float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// To 10 bits of mantissa, ties away from zero (cvt.rna.tf32). Infinities and NaN stay what they
// are.
__device__ __forceinline__ uint32_t to_tf32(float value) {
#if KINET_HAS_MMA
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(rounded) : "f"(value));
  return rounded;
#else
  const uint32_t bits = float_bits(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
#endif
}

// To 7 bits of mantissa, ties to even; a NaN stays one.
__device__ __forceinline__ uint32_t to_bf16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
__device__ __forceinline__ uint32_t to_bf16_pair(float low, float high) {
#if KINET_HAS_MMA
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return to_bf16(low) | (to_bf16(high) << 16);
#endif
}

#if KINET_HAS_MMA

__device__ __forceinline__ void mma_tf32(float (&c)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

// c += rows (lo, hi) times columns (left, right) for one k.
__device__ __forceinline__ void mma_add(float (&c)[4], float lo, float hi, float left,
                                        float right) {
  c[0] += lo * left, c[1] += lo * right;
  c[2] += hi * left, c[3] += hi * right;
}

__device__ inline void mma_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for (int k = 0; k < 8; ++k) {
    const int row = g * 4 + k % 4, left = 2 * t * 4 + k % 4;  // lanes that hold A[g][k], B[k][2t]
    const bool first = k < 4;
    const uint32_t lo = __shfl_sync(0xffffffffu, first ? a[0] : a[2], row);
    const uint32_t hi = __shfl_sync(0xffffffffu, first ? a[1] : a[3], row);
    const uint32_t b0 = __shfl_sync(0xffffffffu, first ? b[0] : b[1], left);
    const uint32_t b1 = __shfl_sync(0xffffffffu, first ? b[0] : b[1], left + 4);
    mma_add(c, bits_float(lo), bits_float(hi), bits_float(b0), bits_float(b1));
  }
}

__device__ inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for (int k = 0; k < 16; k += 2) {
    const int row = g * 4 + k % 8 / 2, left = 2 * t * 4 + k % 8 / 2;
    const bool first = k < 8;
    const uint32_t lo = __shfl_sync(0xffffffffu, first ? a[0] : a[2], row);
    const uint32_t hi = __shfl_sync(0xffffffffu, first ? a[1] : a[3], row);
    const uint32_t b0 = __shfl_sync(0xffffffffu, first ? b[0] : b[1], left);
    const uint32_t b1 = __shfl_sync(0xffffffffu, first ? b[0] : b[1], left + 4);
    mma_add(c, bits_float(lo << 16), bits_float(hi << 16), bits_float(b0 << 16),
            bits_float(b1 << 16));
    mma_add(c, bits_float(lo & 0xffff0000u), bits_float(hi & 0xffff0000u),
            bits_float(b0 & 0xffff0000u), bits_float(b1 & 0xffff0000u));
  }
}

#endif

}  // namespace kinet
