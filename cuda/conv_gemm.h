// The matrix product behind all three passes of a convolution, with operands that are gathered
// while it runs (implicit GEMM).
//
// Equation: C[m, n] = sum over k of A[m, k] B[k, n], one product for each group. A block computes
// one tile of C. While it multiplies one slab of the inner dimension, the next is copied into the
// other half of shared memory; one barrier a slab separates readers and writers:
//   load 0 | wait, barrier, load 1, multiply 0 | wait, barrier, load 2, multiply 1 | ...
// Slab k + 2 overwrites the half of slab k, which all have left at the barrier before.
// Slices: the inner dimension may be divided into slices with a result each (split-K), that are
// added up afterwards in a fixed order, so that the same shape always gives the same bits.
//
// Grid: x tiles, the row tiles of one column tile side by side, so that blocks that run together
// gather the same pixels and find them in the L2 cache; z groups * slices.
#pragma once

#include "cuda/conv_operands.h"

namespace kinet {

// Groups and slices of a launch. first_group: a launch has at most 65535 of them.
struct GemmParts {
  int groups, first_group;
  int slice_depth;  // a multiple of every Math::kDepth
  int row_tiles;
};

template <class Math, class Operands>
__global__ void __launch_bounds__(Math::Tile::kThreads, Math::kBlocks)
    conv_gemm_kernel(Operands operands, ConvResult result, GemmParts parts) {
  using Tile = typename Math::Tile;
  __shared__ __align__(16) float a[2][Math::kDepth][Tile::kRows + Math::kPad];
  __shared__ __align__(16) float b[2][Math::kDepth][Tile::kColumns + Math::kPad];
  const int group = parts.first_group + static_cast<int>(blockIdx.z) % parts.groups;
  const int slice = static_cast<int>(blockIdx.z) / parts.groups;
  const int tile = static_cast<int>(blockIdx.x);
  const int column = tile / parts.row_tiles * Tile::kColumns;
  const int row = tile % parts.row_tiles * Tile::kRows;
  const int begin = slice * parts.slice_depth;
  const int end = min(operands.depth() - begin, parts.slice_depth) + begin;

  const typename Operands::template Loader<Tile> loader(operands, group, row, column);
  const auto load = [&](int k, int half) {
#pragma unroll
    for (int part = 0; part < Math::kDepth; part += kLoadDepth) {
      loader.load(k + part, &a[half][part], &b[half][part]);
    }
    async_commit();
  };

  Math math;
  load(begin, 0);
  int half = 0;
  for (int k = begin; k < end; k += Math::kDepth) {
    async_wait_all();
    __syncthreads();
    if (k + Math::kDepth < end) load(k + Math::kDepth, 1 - half);
    math.multiply(a[half], b[half]);
    half = 1 - half;
  }
  math.store(result.at(group, slice), row, column);
}

}  // namespace kinet
