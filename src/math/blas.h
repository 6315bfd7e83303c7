// Matrix products over OpenBLAS, row-major, held at one thread (kinet divides the work itself).
#pragma once

#include <cstdint>
#include <string>

namespace kinet {

enum class Trans { kNo, kYes };

// C (m x n) = alpha * op(A) (m x k) * op(B) (k x n) + beta * C, row-major and dense.
void gemm(Trans a_trans, Trans b_trans, int64_t m, int64_t n, int64_t k, float alpha,
          const float* a, const float* b, float beta, float* c);

// The same on `threads` threads: C is divided into bands of rows or columns (fixed partition).
void gemm_parallel(int threads, Trans a_trans, Trans b_trans, int64_t m, int64_t n, int64_t k,
                   float alpha, const float* a, const float* b, float beta, float* c);

// y (m) = alpha * op(A) * x + beta * y; A is m x n before op.
void gemv(Trans a_trans, int64_t m, int64_t n, float alpha, const float* a, const float* x,
          float beta, float* y);

std::string blas_description();  // "OpenBLAS 0.3.21, kernel Cooperlake"

}  // namespace kinet
