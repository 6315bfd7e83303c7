// Copies a block of rows between tensors whose rows are of different lengths: Concat and Slice.
//
// Shapes: `rows` rows of `part` values; rows begin from_step and to_step values apart.
// Four values at a time when part, steps and pointers allow it.
// Thread safety: launches on the stream it is given and does not wait.
#pragma once

#include "cuda/divide.h"
#include "cuda/elementwise.h"

namespace kinet {

template <bool kFour, class Divide>
__global__ void __launch_bounds__(kThreads)
    copy_rows_kernel(int64_t items, Divide part, int64_t part_items, const float* from,
                     int64_t from_step, float* to, int64_t to_step) {
  using Index = typename Divide::Index;
  constexpr int64_t kSize = kFour ? 4 : 1;
  KINET_GRID_STRIDE(i, items) {
    const int64_t row = part.quotient(static_cast<Index>(i));
    const int64_t at = (i - row * part_items) * kSize;
    if constexpr (kFour) {
      store_4(to + row * to_step + at, load_4(from + row * from_step + at));
    } else {
      to[row * to_step + at] = from[row * from_step + at];
    }
  }
}

template <bool kFour, class Divide>
void launch_copy_rows(cudaStream_t stream, int64_t rows, int64_t part, const float* from,
                      int64_t from_step, float* to, int64_t to_step) {
  const int64_t part_items = kFour ? part / 4 : part, items = rows * part_items;
  KINET_LAUNCH((copy_rows_kernel<kFour, Divide>), blocks_for(items), kThreads, 0, stream, items,
               Divide(part_items), part_items, from, from_step, to, to_step);
  KINET_CUDA_CHECK_LAUNCH();
}

inline void copy_rows(cudaStream_t stream, int64_t rows, int64_t part, const float* from,
                      int64_t from_step, float* to, int64_t to_step) {
  if (rows * part == 0) return;
  const bool four =
      part % 4 == 0 && from_step % 4 == 0 && to_step % 4 == 0 && aligned_16(from) && aligned_16(to);
  if (rows * part > kFastDivideLimit) {
    launch_copy_rows<false, LongDivide>(stream, rows, part, from, from_step, to, to_step);
  } else if (four) {
    launch_copy_rows<true, FastDivide>(stream, rows, part, from, from_step, to, to_step);
  } else {
    launch_copy_rows<false, FastDivide>(stream, rows, part, from, from_step, to, to_step);
  }
}

}  // namespace kinet
