// Element-wise and reduction kernels, one implementation for each instruction set, chosen once at
// run time (vec_generic.cc, vec_avx2.cc, vec_avx512.cc; bodies in vec_kernels.inc).
//
// Pointers may be unaligned; an output may equal an input, but must not overlap it otherwise. Sums
// accumulate in double in a fixed order, so they are repeatable, and the same in every set.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace kinet {

// One row of pooling windows that lie wholly inside the image: window o covers `rows` x `cols`
// values whose first is x[o * stride]; the next row of the image begins `ld` floats later.
struct PoolRow {
  int64_t outputs;
  int rows, cols, stride;
  const float* x;
  int64_t ld;
};

struct VecKernels {
  const char* name;                                            // "generic", "avx2", "avx512"
  void (*axpy)(int64_t n, float a, const float* x, float* y);  // y += a x
  void (*axpby)(int64_t n, float a, const float* x, float b, float* y);        // y = a x + b y
  void (*scale)(int64_t n, float a, const float* x, float* y);                 // y = a x
  void (*add_scalar)(int64_t n, float a, const float* x, float* y);            // y = x + a
  void (*scale_shift)(int64_t n, float a, float b, const float* x, float* y);  // y = a x + b
  void (*shift_scale)(int64_t n, float a, float b, const float* x, float* y);  // y = (x + a) b
  void (*add)(int64_t n, const float* a, const float* b, float* y);
  void (*sub)(int64_t n, const float* a, const float* b, float* y);
  void (*mul)(int64_t n, const float* a, const float* b, float* y);
  void (*div)(int64_t n, const float* a, const float* b, float* y);
  void (*mul_add)(int64_t n, const float* a, const float* b, float* y);  // y += a b
  void (*max)(int64_t n, const float* a, const float* b, float* y);      // a > b ? a : b
  void (*relu)(int64_t n, float slope, const float* x, float* y);        // x > 0 ? x : slope x
  // dx = y > 0 ? dy : slope dy; y may be the input or, for slope >= 0, the output of relu.
  void (*relu_grad)(int64_t n, float slope, const float* y, const float* dy, float* dx);
  // Transcendental functions: at most 4 ulp from the exact value, with the usual results for 0,
  // infinities, NaN and overflow.
  void (*exp)(int64_t n, const float* x, float* y);
  void (*log)(int64_t n, const float* x, float* y);
  void (*sigmoid)(int64_t n, const float* x, float* y);
  void (*tanh)(int64_t n, const float* x, float* y);
  void (*pow)(int64_t n, const float* x, float e, float* y);  // any x, as std::pow; fast for x > 0
  double (*sum)(int64_t n, const float* x);
  double (*sum_squares)(int64_t n, const float* x);
  double (*dot)(int64_t n, const float* x, const float* y);
  float (*max_value)(int64_t n, const float* x);  // REQUIRES: n > 0. NaNs are passed over.
  bool (*all_finite)(int64_t n, const float* x);
  // y[o] = largest value of window o (a NaN counts as largest), index[o] = first + its offset from
  // x; among equals the first in reading order.
  void (*max_pool_row)(const PoolRow& row, int32_t first, float* y, int32_t* index);
  void (*ave_pool_row)(const PoolRow& row, float factor, float* y);  // y[o] = factor * sum
  // The same for windows of any form, given by a table: tap t of window o is x[table[t * n + o]].
  // For planes whose rows are too short to be worth a call each. REQUIRES: taps > 0
  void (*max_pool_table)(int64_t n, int taps, const int32_t* table, const float* x, float* y,
                         int32_t* index);
  // Rows of n floats, `x_step` and `y_step` floats apart (0: the same row): y = x, and y += x.
  void (*copy_rows)(int64_t rows, int64_t n, const float* x, int64_t x_step, float* y,
                    int64_t y_step);
  void (*add_rows)(int64_t rows, int64_t n, const float* x, int64_t x_step, float* y,
                   int64_t y_step);
  // y[i] = x[i * stride]
  void (*gather)(int64_t n, int64_t stride, const float* x, float* y);
};

// The best set this processor runs.
const VecKernels& vec();

// All sets this processor runs, best last: for tests and benchmarks.
int vec_variant_count();
const VecKernels& vec_variant(int index);

}  // namespace kinet
