// Element-wise and reduction kernels, one implementation for each instruction set, chosen once at
// run time (vec_generic.cc, vec_avx2.cc, vec_avx512.cc). Pointers may be unaligned; out may equal
// an input. Sums accumulate in double in a fixed order, so they are repeatable.
#pragma once

#include <cstdint>
#include <string>

namespace kinet {

struct VecKernels {
  const char* name;                                            // "generic", "avx2", "avx512"
  void (*axpy)(int64_t n, float a, const float* x, float* y);  // y += a x
  void (*axpby)(int64_t n, float a, const float* x, float b, float* y);        // y = a x + b y
  void (*scale)(int64_t n, float a, const float* x, float* y);                 // y = a x
  void (*add_scalar)(int64_t n, float a, const float* x, float* y);            // y = x + a
  void (*scale_shift)(int64_t n, float a, float b, const float* x, float* y);  // y = a x + b
  void (*add)(int64_t n, const float* a, const float* b, float* y);
  void (*sub)(int64_t n, const float* a, const float* b, float* y);
  void (*mul)(int64_t n, const float* a, const float* b, float* y);
  void (*mul_add)(int64_t n, const float* a, const float* b, float* y);  // y += a b
  void (*max)(int64_t n, const float* a, const float* b, float* y);
  void (*relu)(int64_t n, float slope, const float* x, float* y);
  void (*relu_grad)(int64_t n, float slope, const float* y, const float* dy, float* dx);
  void (*exp)(int64_t n, const float* x, float* y);  // <= 2 ulp
  void (*log)(int64_t n, const float* x, float* y);
  void (*sigmoid)(int64_t n, const float* x, float* y);
  void (*tanh)(int64_t n, const float* x, float* y);
  void (*pow)(int64_t n, const float* x, float e, float* y);  // x > 0
  double (*sum)(int64_t n, const float* x);
  double (*sum_squares)(int64_t n, const float* x);
  double (*dot)(int64_t n, const float* x, const float* y);
  float (*max_value)(int64_t n, const float* x);  // n > 0
  bool (*all_finite)(int64_t n, const float* x);
};

// The best set this processor runs.
const VecKernels& vec();

// All sets this processor runs, best last: for tests and benchmarks.
int vec_variant_count();
const VecKernels& vec_variant(int index);

}  // namespace kinet
