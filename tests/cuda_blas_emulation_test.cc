// cuBLAS of the CUDA emulation: transposes, strides, types, arguments that it refuses, ranges.
//
// ctest: labels=unit,core
#include <cublas_v2.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "cuda/emulation/control.h"
#include "tests/cuda/device_vector.h"

namespace kinet {
namespace {

class CudaBlasEmulation : public testing::Test {
 protected:
  void SetUp() override {
    emulation::set_options({});
    emulation::reset();
    ASSERT_EQ(cublasCreate(&blas_), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    cublasDestroy(blas_);
    emulation::reset();
  }
  cublasHandle_t blas_ = nullptr;
  const float one_ = 1, two_ = 2, zero_ = 0;
};

// Element (row, column) of op(M), M column-major.
float element(const std::vector<float>& m, int leading, cublasOperation_t op, int row, int column) {
  return op == CUBLAS_OP_N ? m[static_cast<size_t>(column * leading + row)]
                           : m[static_cast<size_t>(row * leading + column)];
}

TEST_F(CudaBlasEmulation, ProductsOfAllTransposes) {
  const int m = 3, n = 4, k = 5, lda = 7, ldb = 6, ldc = 5;
  const auto a = whole_numbers(7 * 7, 11), b = whole_numbers(6 * 6, 13);
  const auto before = whole_numbers(ldc * n, 5);
  for (cublasOperation_t op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
    for (cublasOperation_t op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      const DeviceVector<float> da(a), db(b), dc(before);
      ASSERT_EQ(cublasSgemm(blas_, op_a, op_b, m, n, k, &two_, da, lda, db, ldb, &one_, dc, ldc),
                CUBLAS_STATUS_SUCCESS);
      std::vector<float> expected = before;
      for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
          for (int l = 0; l < k; ++l) {
            expected[static_cast<size_t>(j * ldc + i)] +=
                2 * element(a, lda, op_a, i, l) * element(b, ldb, op_b, l, j);
          }
        }
      }
      EXPECT_EQ(dc.values(), expected) << op_a << op_b;
    }
  }
}

TEST_F(CudaBlasEmulation, WrongArgumentsAreRefused) {
  const DeviceVector<float> x(64);
  const auto status = [&](int m, int lda, int ldb, int ldc) {
    return cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_T, m, 3, 2, &one_, x, lda, x, ldb, &zero_, x,
                       ldc);
  };
  EXPECT_EQ(status(4, 3, 3, 4), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status(4, 4, 2, 4), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status(4, 4, 3, 3), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status(-1, 4, 3, 4), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(
      cublasSgemm(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, x, 1, x, 1, &zero_, x, 1),
      CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasSaxpy(blas_, 3, nullptr, x, 1, x, 1), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CudaBlasEmulation, ArraysMustLieInOneAllocation) {
  const DeviceVector<float> a(12), b(6), c(8);
  const auto gemm = [&](const float* first) {
    return cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 2, 3, &one_, first, 4, b, 3, &zero_, c,
                       4);
  };
  EXPECT_EQ(gemm(a), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(gemm(a + 1), CUBLAS_STATUS_EXECUTION_FAILED);
  const std::vector<float> host(12);
  EXPECT_EQ(gemm(host.data()), CUBLAS_STATUS_EXECUTION_FAILED);
  const std::string text = emulation::text_of(emulation::take_reports());
  EXPECT_NE(text.find("cublasSgemm: bad range in a call: A takes 48 bytes from offset 4 of a "
                      "48-byte allocation"),
            std::string::npos)
      << text;
}

TEST_F(CudaBlasEmulation, ZeroBetaDoesNotReadPoison) {
  const DeviceVector<float> a(std::vector<float>{2}), b(std::vector<float>{3}), c(1);
  cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, a, 1, b, 1, &zero_, c, 1);
  EXPECT_EQ(c.values()[0], 6);
  cublasSgemv(blas_, CUBLAS_OP_N, 1, 1, &one_, a, 1, b, 1, &zero_, c, 1);
  EXPECT_EQ(c.values()[0], 6);
}

TEST_F(CudaBlasEmulation, StridedBatches) {
  const DeviceVector<float> a(std::vector<float>{1, 2, 3}), b(std::vector<float>{10, 20, 30});
  const DeviceVector<float> c(std::vector<float>(6));
  EXPECT_EQ(cublasSgemmStridedBatched(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, a, 1, 1, b,
                                      1, 0, &zero_, c, 1, 2, 3),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c.values(), (std::vector<float>{10, 0, 20, 0, 30, 0}));
}

// 1.5, -2, 65504 (the largest half), 2^-24 (the smallest) in 16 bits, and 1 as both types.
TEST_F(CudaBlasEmulation, HalfAndBfloat16) {
  const DeviceVector<uint16_t> halves({0x3e00, 0xc000, 0x7bff, 0x0001}),
      half_one(std::vector<uint16_t>{0x3c00});
  const DeviceVector<float> c(4);
  EXPECT_EQ(cublasGemmEx(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 1, 1, &one_, halves, CUDA_R_16F, 4,
                         half_one, CUDA_R_16F, 1, &zero_, c, CUDA_R_32F, 4, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(c.values(), (std::vector<float>{1.5f, -2, 65504, std::ldexp(1.0f, -24)}));
  const DeviceVector<uint16_t> out(4);
  cublasGemmEx(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 1, 1, &one_, halves, CUDA_R_16F, 4, half_one,
               CUDA_R_16F, 1, &zero_, out, CUDA_R_16F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  EXPECT_EQ(out.values(), halves.values());
  const DeviceVector<uint16_t> brains({0x3fc0, 0xc000, 0x7f80, 0x0001}),
      brain_one(std::vector<uint16_t>{0x3f80});
  cublasGemmEx(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 1, 1, &one_, brains, CUDA_R_16BF, 4, brain_one,
               CUDA_R_16BF, 1, &zero_, out, CUDA_R_16BF, 4, CUBLAS_COMPUTE_32F,
               CUBLAS_GEMM_DEFAULT);
  EXPECT_EQ(out.values(), brains.values());
  EXPECT_EQ(cublasGemmEx(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 1, 1, &one_, brains, CUDA_R_16BF, 4,
                         half_one, CUDA_R_16F, 1, &zero_, c, CUDA_R_32F, 4, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CudaBlasEmulation, Vectors) {
  const DeviceVector<float> x(std::vector<float>{3, 0, -4}), y(std::vector<float>{1, 1, 1});
  float result = 0;
  EXPECT_EQ(cublasSnrm2(blas_, 2, x, 2, &result), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(result, 5);
  cublasSasum(blas_, 3, x, 1, &result);
  EXPECT_EQ(result, 7);
  cublasSdot(blas_, 3, x, 1, y, 1, &result);
  EXPECT_EQ(result, -1);
  cublasSaxpy(blas_, 3, &two_, x, 1, y, 1);
  EXPECT_EQ(y.values(), (std::vector<float>{7, 1, -7}));
  cublasSscal(blas_, 3, &two_, y, 1);
  EXPECT_EQ(y.values(), (std::vector<float>{14, 2, -14}));
  cublasScopy(blas_, 3, x, 1, y, 1);
  EXPECT_EQ(y.values(), x.values());
  const DeviceVector<float> a(std::vector<float>(6));
  cublasSger(blas_, 2, 3, &one_, y, 2, x, 1, a, 2);
  EXPECT_EQ(a.values(), (std::vector<float>{9, -12, 0, 0, -12, 16}));
}

TEST_F(CudaBlasEmulation, ScalarsOnTheDeviceAndLazyStreams) {
  emulation::Options options;
  options.lazy_streams = true;
  emulation::set_options(options);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cublasSetStream(blas_, stream);
  cublasSetPointerMode(blas_, CUBLAS_POINTER_MODE_DEVICE);
  const DeviceVector<float> scale(std::vector<float>{3}), x(std::vector<float>{1, 2}), sum(1);
  EXPECT_EQ(cublasSscal(blas_, 2, scale, x, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSasum(blas_, 2, x, 1, sum), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(x.values(),
            (std::vector<float>{1, 2}));  // the default stream does not wait for this one
  cudaStreamSynchronize(stream);
  EXPECT_EQ(x.values(), (std::vector<float>{3, 6}));
  EXPECT_EQ(sum.values()[0], 9);
  cudaStreamDestroy(stream);
  emulation::set_options({});
}

}  // namespace
}  // namespace kinet
