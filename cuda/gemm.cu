// See gemm.h.
#include "cuda/gemm.h"

namespace kinet {

void gemm(const Gpu& gpu, int64_t m, int64_t n, int64_t k, const GemmOperand& a,
          const GemmOperand& b, const GemmTarget& c, int64_t count) {
  if (m == 0 || n == 0 || count == 0) return;
  const float one = 1;
  const auto i = [](int64_t size) { return static_cast<int>(size); };
  const cublasOperation_t op_a = a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t op_b = b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int lda = i(a.transposed ? m : k), ldb = i(b.transposed ? k : n);
  if (count == 1) {
    KINET_CUBLAS_CHECK(cublasSgemm(gpu.blas, op_b, op_a, i(n), i(m), i(k), &one, b.data, ldb,
                                   a.data, lda, &c.beta, c.data, i(n)));
    return;
  }
  KINET_CUBLAS_CHECK(cublasSgemmStridedBatched(gpu.blas, op_b, op_a, i(n), i(m), i(k), &one, b.data,
                                               ldb, b.stride, a.data, lda, a.stride, &c.beta,
                                               c.data, i(n), c.stride, i(count)));
}

Tf32Products::Tf32Products(const Gpu& gpu, bool allowed) : gpu_(gpu), allowed_(allowed) {
  if (allowed_) KINET_CUBLAS_CHECK(cublasSetMathMode(gpu_.blas, CUBLAS_TF32_TENSOR_OP_MATH));
}

Tf32Products::~Tf32Products() {
  // Can fail only for a handle that is not one; the next product would then say so.
  if (allowed_) static_cast<void>(cublasSetMathMode(gpu_.blas, CUBLAS_DEFAULT_MATH));
}

}  // namespace kinet
