// How a block of threads multiplies two tiles in shared memory: A (depth x rows, so that a column
// of the left matrix lies together) and B (depth x columns), into a tile of C held in registers.
//
// Tile. Per step of the inner dimension a thread of Float32Math reads kThreadRows + kThreadColumns
// floats and does kThreadRows * kThreadColumns FFMA. A multiprocessor does 128 FFMA a clock (sm_80,
// sm_90; 4 warp instructions) and delivers 128 bytes of shared memory:
//   128x128, 256 threads, 8x8 each: 64 FFMA (16 clocks a warp) to 4 LDS.128; the lanes of a warp
//     share addresses, so that B takes 2 wavefronts a load and A 1: 6 clocks. Arithmetic bound.
//   64x64, 128 threads, 4x8 each: 32 FFMA (8 clocks) to 3 LDS.128, 3 clocks. Arithmetic bound.
//   32x128, 128 threads, 4x8 each: 8 clocks of FFMA; a warp covers 2 quads of rows and 16 of
//   columns: 5
//     clocks of loads. Arithmetic bound.
//   64x64, 256 threads, 4x4 each would be 16 FFMA (4 clocks) to 2 LDS.128 of 3 clocks: hardly.
// From global memory a tile of 128x128 reads 256 floats for 16384 FFMA, one of 64x64 128 for 4096:
// 16 and 8 FFMA a byte. A device of 60 TFLOP/s (30 T FFMA) needs 1.9 and 3.8 TB/s of its caches.
//
// Bank conflicts: rows are padded, by 4 floats where they are read as float4 and written by 8 rows
// x 4 columns a warp (banks 4 k + m), by 8 where fragments of 4 rows x 8 columns are read (8 k +
// m). Thread safety: all threads of the block call together.
#pragma once

#include "cuda/gpu.h"
#include "cuda/mma.h"

namespace kinet {

struct LargeTile {
  static constexpr int kRows = 128, kColumns = 128, kThreads = 256;
  static constexpr int kThreadRows = 8, kThreadColumns = 8;
  static constexpr int kWarpRows = 64, kWarpColumns = 32;  // tensor cores
  static constexpr int kBlocksPerMultiprocessor = 2;       // 128 registers a thread
};

struct SmallTile {
  static constexpr int kRows = 64, kColumns = 64, kThreads = 128;
  static constexpr int kThreadRows = 4, kThreadColumns = 8;
  static constexpr int kWarpRows = 32, kWarpColumns = 32;
  static constexpr int kBlocksPerMultiprocessor = 5;  // 102 registers a thread
};

// For products of at most 32 rows, of which SmallTile would waste half.
struct NarrowTile {
  static constexpr int kRows = 32, kColumns = 128, kThreads = 128;
  static constexpr int kThreadRows = 4, kThreadColumns = 8;
  static constexpr int kWarpRows = 32, kWarpColumns = 32;
  static constexpr int kBlocksPerMultiprocessor = 4;  // 128 registers a thread
};

// Plain float32: every thread has quads of 4 rows x 4 columns of C.
template <class T>
struct Float32Math {
  using Tile = T;
  static constexpr int kDepth = 8, kPad = 4;
  static constexpr int kBlocks = T::kBlocksPerMultiprocessor;
  static constexpr int kRowQuads = T::kThreadRows / 4, kColumnQuads = T::kThreadColumns / 4;
  static constexpr int kAcross = T::kColumns / T::kThreadColumns;  // threads side by side
  static_assert(kAcross * (T::kRows / T::kThreadRows) == T::kThreads);

  float c[T::kThreadRows][T::kThreadColumns] = {};

  static __device__ int row_of(int quad) {
    return quad * (T::kRows / kRowQuads) + static_cast<int>(threadIdx.x) / kAcross * 4;
  }
  static __device__ int column_of(int quad) {
    return quad * (T::kColumns / kColumnQuads) + static_cast<int>(threadIdx.x) % kAcross * 4;
  }

  template <int kLda, int kLdb>
  __device__ __forceinline__ void multiply(const float (&a)[kDepth][kLda],
                                           const float (&b)[kDepth][kLdb]) {
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float left[T::kThreadRows], right[T::kThreadColumns];
#pragma unroll
      for (int q = 0; q < kRowQuads; ++q) read_quad(&a[k][row_of(q)], &left[4 * q]);
#pragma unroll
      for (int q = 0; q < kColumnQuads; ++q) read_quad(&b[k][column_of(q)], &right[4 * q]);
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < T::kThreadColumns; ++j) c[i][j] += left[i] * right[j];
      }
    }
  }

  template <class Result>
  __device__ __forceinline__ void store(const Result& result, int row, int column) const {
#pragma unroll
    for (int q = 0; q < kColumnQuads; ++q) {
      const typename Result::Columns columns = result.columns(column + column_of(q));
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) {
        result.store4(row + row_of(i / 4) + i % 4, columns, &c[i][4 * q]);
      }
    }
  }

 private:
  static __device__ __forceinline__ void read_quad(const float* from, float* to) {
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x, to[1] = quad.y, to[2] = quad.z, to[3] = quad.w;
  }
};

// Tensor cores: a warp has kWarpRows x kWarpColumns of C as blocks of 16 x 8. Elements are rounded
// to tf32 or bf16 as they are read from shared memory; sums are float32.
template <class T, bool kBf16>
struct TensorCoreMath {
  using Tile = T;
  static constexpr int kDepth = 16, kPad = 8;
  // The plain variant needs more registers; it is never launched on a device.
  static constexpr int kBlocks = KINET_HAS_MMA ? T::kBlocksPerMultiprocessor : 1;
  static constexpr int kStep = kBf16 ? 16 : 8;  // depth of one mma
  static constexpr int kRowBlocks = T::kWarpRows / 16, kColumnBlocks = T::kWarpColumns / 8;
  static constexpr int kAcross = T::kColumns / T::kWarpColumns;  // warps side by side
  static_assert(kAcross * (T::kRows / T::kWarpRows) * 32 == T::kThreads);

  float c[kRowBlocks][kColumnBlocks][4] = {};

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int warp_row() {
    return static_cast<int>(threadIdx.x) / 32 / kAcross * T::kWarpRows;
  }
  static __device__ int warp_column() {
    return static_cast<int>(threadIdx.x) / 32 % kAcross * T::kWarpColumns;
  }

  template <int kLda, int kLdb>
  __device__ __forceinline__ void multiply(const float (&a)[kDepth][kLda],
                                           const float (&b)[kDepth][kLdb]) {
    const int g = lane() / 4, t = lane() % 4;
#pragma unroll
    for (int k = 0; k < kDepth; k += kStep) {
      uint32_t right[kColumnBlocks][2];
#pragma unroll
      for (int j = 0; j < kColumnBlocks; ++j) {
        const int n = warp_column() + j * 8 + g;
        right[j][0] = element(b, k, t, n);
        right[j][1] = element(b, k + kStep / 2, t, n);
      }
#pragma unroll
      for (int i = 0; i < kRowBlocks; ++i) {
        const int m = warp_row() + i * 16 + g;
        const uint32_t left[4] = {element(a, k, t, m), element(a, k, t, m + 8),
                                  element(a, k + kStep / 2, t, m),
                                  element(a, k + kStep / 2, t, m + 8)};
#pragma unroll
        for (int j = 0; j < kColumnBlocks; ++j) {
          if constexpr (kBf16) {
            mma_bf16(c[i][j], left, right[j]);
          } else {
            mma_tf32(c[i][j], left, right[j]);
          }
        }
      }
    }
  }

  template <class Result>
  __device__ __forceinline__ void store(const Result& result, int row, int column) const {
    const int g = lane() / 4, t = lane() % 4;
#pragma unroll
    for (int j = 0; j < kColumnBlocks; ++j) {
      const typename Result::Columns columns =
          result.columns(column + warp_column() + j * 8 + 2 * t);
#pragma unroll
      for (int i = 0; i < kRowBlocks; ++i) {
        const int m = row + warp_row() + i * 16 + g;
        result.store2(m, columns, &c[i][j][0]);
        result.store2(m + 8, columns, &c[i][j][2]);
      }
    }
  }

 private:
  // Register t of a fragment: row k + t as tf32, or rows k + 2t and k + 2t + 1 as a pair of bf16.
  template <int kLd>
  static __device__ __forceinline__ uint32_t element(const float (&m)[kDepth][kLd], int k, int t,
                                                     int column) {
    if constexpr (kBf16) {
      return to_bf16_pair(m[k + 2 * t][column], m[k + 2 * t + 1][column]);
    } else {
      return to_tf32(m[k + t][column]);
    }
  }
};

}  // namespace kinet
