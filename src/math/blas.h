// Matrix products over OpenBLAS, row-major, held at one thread (kinet divides the work itself).
//
// Thread safety: every function may be called from several threads at once.
#pragma once

#include <cstdint>
#include <string>

namespace kinet {

enum class Trans { kNo, kYes };

// C (m x n) = alpha * op(A) (m x k) * op(B) (k x n) + beta * C, row-major and dense.
void gemm(Trans a_trans, Trans b_trans, int64_t m, int64_t n, int64_t k, float alpha,
          const float* a, const float* b, float beta, float* c);

// A matrix inside a larger one: `ld` floats lie between the starts of two rows.
struct MatrixRef {
  const float* data;
  int64_t ld;
};

// The same with strided rows. With beta = 0, C is not read.
void gemm_strided(Trans a_trans, Trans b_trans, int64_t m, int64_t n, int64_t k, float alpha,
                  MatrixRef a, MatrixRef b, float beta, float* c, int64_t ldc);

// The dense product on `threads` threads: C is divided into bands of rows or columns, whichever is
// longer (fixed partition).
void gemm_parallel(int threads, Trans a_trans, Trans b_trans, int64_t m, int64_t n, int64_t k,
                   float alpha, const float* a, const float* b, float beta, float* c);

// y = alpha * op(A) * x + beta * y; A is m x n before op.
void gemv(Trans a_trans, int64_t m, int64_t n, float alpha, const float* a, const float* x,
          float beta, float* y);

std::string blas_description();  // "OpenBLAS 0.3.21, kernel Cooperlake"

}  // namespace kinet
