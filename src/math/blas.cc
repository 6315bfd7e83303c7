#include "src/math/blas.h"

#include <cblas.h>

#include <algorithm>

#include "src/base/check.h"
#include "src/base/parallel.h"

namespace kinet {

namespace {

constexpr int64_t kBandGrain = 16;  // bands of C are multiples of this: a register tile of the
                                    // AVX-512 kernels, so that only the last band has a remainder

// OpenBLAS would start threads of its own inside ours. Done once, before the first product.
void hold_at_one_thread() {
  static const bool held = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  (void)held;
}

CBLAS_TRANSPOSE cblas(Trans trans) { return trans == Trans::kYes ? CblasTrans : CblasNoTrans; }

}  // namespace

void gemm_strided(Trans a_trans, Trans b_trans, int64_t m, int64_t n, int64_t k, float alpha,
                  MatrixRef a, MatrixRef b, float beta, float* c, int64_t ldc) {
  hold_at_one_thread();
  if (m == 0 || n == 0) return;
  cblas_sgemm(CblasRowMajor, cblas(a_trans), cblas(b_trans), static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), alpha, a.data,
              static_cast<blasint>(std::max<int64_t>(1, a.ld)), b.data,
              static_cast<blasint>(std::max<int64_t>(1, b.ld)), beta, c, static_cast<blasint>(ldc));
}

void gemm(Trans a_trans, Trans b_trans, int64_t m, int64_t n, int64_t k, float alpha,
          const float* a, const float* b, float beta, float* c) {
  const int64_t lda = a_trans == Trans::kYes ? m : k;
  const int64_t ldb = b_trans == Trans::kYes ? k : n;
  gemm_strided(a_trans, b_trans, m, n, k, alpha, {a, lda}, {b, ldb}, beta, c, n);
}

void gemm_parallel(int threads, Trans a_trans, Trans b_trans, int64_t m, int64_t n, int64_t k,
                   float alpha, const float* a, const float* b, float beta, float* c) {
  const int64_t lda = a_trans == Trans::kYes ? m : k;
  const int64_t ldb = b_trans == Trans::kYes ? k : n;
  const bool by_rows = m >= n;
  const int64_t length = by_rows ? m : n;
  parallel_for(threads, (length + kBandGrain - 1) / kBandGrain, [&](int64_t from, int64_t to, int) {
    const int64_t begin = from * kBandGrain, size = std::min(to * kBandGrain, length) - begin;
    if (by_rows) {
      const float* band = a + (a_trans == Trans::kYes ? begin : begin * lda);
      gemm_strided(a_trans, b_trans, size, n, k, alpha, {band, lda}, {b, ldb}, beta, c + begin * n,
                   n);
    } else {
      const float* band = b + (b_trans == Trans::kYes ? begin * ldb : begin);
      gemm_strided(a_trans, b_trans, m, size, k, alpha, {a, lda}, {band, ldb}, beta, c + begin, n);
    }
  });
}

void gemv(Trans a_trans, int64_t m, int64_t n, float alpha, const float* a, const float* x,
          float beta, float* y) {
  hold_at_one_thread();
  cblas_sgemv(CblasRowMajor, cblas(a_trans), static_cast<blasint>(m), static_cast<blasint>(n),
              alpha, a, static_cast<blasint>(std::max<int64_t>(1, n)), x, 1, beta, y, 1);
}

std::string blas_description() {
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
  const size_t name = config.find(' ');
  const size_t version = name == std::string::npos ? name : config.find(' ', name + 1);
  return fmt::format("{}, kernel {}", config.substr(0, version), openblas_get_corename());
}

}  // namespace kinet
