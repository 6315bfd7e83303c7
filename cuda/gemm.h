// Products of row-major matrices through cuBLAS.
//
// Equation: C (m x n) = A (m x k) B (k x n) + beta C, A and B transposed first where the operand
// says so: a transposed A is stored k x m. Matrices lie without gaps between rows. cuBLAS counts
// columns first, so it is asked for the transpose, C' = B' A', which is the same memory. Batches:
// `count` products, whose matrices lie `stride` floats apart; an operand with stride 0 is shared.
// REQUIRES: m, n and k below 2^31; results of a batch do not overlap. Precision: float32 unless the
// handle's math mode says otherwise. Thread safety: functions; one call at a time for one Gpu. Work
// goes to its stream.
#pragma once

#include "cuda/layer.h"

namespace kinet {

struct GemmOperand {
  const float* data = nullptr;
  bool transposed = false;
  int64_t stride = 0;
};

struct GemmTarget {
  float* data = nullptr;
  float beta = 0;  // 0: overwrites, and does not read; 1: adds
  int64_t stride = 0;
};

void gemm(const Gpu& gpu, int64_t m, int64_t n, int64_t k, const GemmOperand& a,
          const GemmOperand& b, const GemmTarget& c, int64_t count = 1);

// While it lives, cuBLAS may round the factors of products to tf32 (10 bits of mantissa), where the
// device can. Does nothing unless `allowed`.
class Tf32Products {
 public:
  Tf32Products(const Gpu& gpu, bool allowed);
  ~Tf32Products();
  Tf32Products(const Tf32Products&) = delete;
  Tf32Products& operator=(const Tf32Products&) = delete;

 private:
  const Gpu& gpu_;
  const bool allowed_;
};

}  // namespace kinet
