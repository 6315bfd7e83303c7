#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "cuda/emulation/cublas_api.h"
#include "cuda/emulation/engine.h"

namespace kinet::emulation {

struct Blas {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

namespace {

CBLAS_TRANSPOSE transpose(cublasOperation_t op) {
  return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}

bool is_operation(cublasOperation_t op) { return op >= CUBLAS_OP_N && op <= CUBLAS_OP_C; }

// An array that a call reads or writes, for the check against the live allocations.
struct Range {
  const void* begin;
  size_t bytes;
  const char* name;
};

Range matrix(const void* begin, int rows, int columns, int leading, const char* name,
             size_t element = sizeof(float)) {
  if (rows == 0 || columns == 0) return {begin, 0, name};
  const auto last = static_cast<size_t>(columns - 1) * static_cast<size_t>(leading);
  return {begin, (last + static_cast<size_t>(rows)) * element, name};
}

Range vector(const void* begin, int n, int stride, const char* name) {
  if (n <= 0) return {begin, 0, name};
  return {begin,
          (static_cast<size_t>(n - 1) * static_cast<size_t>(std::abs(stride)) + 1) * sizeof(float),
          name};
}

bool ranges_are_good(const char* call, std::initializer_list<Range> ranges) {
  const Engine& e = engine();
  for (const Range& range : ranges) {
    if (range.bytes == 0) continue;
    if (e.device.covers(range.begin, range.bytes) || e.pinned.covers(range.begin, range.bytes)) {
      continue;
    }
    report(Fault::kDeviceCall, call,
           fmt::format("{} takes {} bytes from {}", range.name, range.bytes,
                       e.pinned.contains(range.begin) ? e.pinned.describe(range.begin)
                                                      : e.device.describe(range.begin)));
    return false;
  }
  return true;
}

// A scalar argument: the host's is read now, the device's when the work runs.
class Scalar {
 public:
  Scalar(const Blas& blas, const float* address)
      : address_(blas.pointers == CUBLAS_POINTER_MODE_DEVICE ? address : nullptr),
        value_(address_ == nullptr ? *address : 0) {}
  float value() const { return address_ == nullptr ? value_ : *address_; }

 private:
  const float* address_;
  float value_;
};

// Checks the arrays and queues the work on the handle's stream. `wait`: the result is the host's.
cublasStatus_t run(const char* call, const Blas& blas, std::initializer_list<Range> ranges,
                   Work work, bool wait = false) {
  Engine& e = engine();
  if (e.sticky != cudaSuccess || !ranges_are_good(call, ranges)) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  enqueue(blas.stream, std::move(work));
  if (wait) cudaStreamSynchronize(blas.stream);
  return e.sticky == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

float from_half(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  float value = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (half & 0x8000) != 0 ? -value : value;
}

// To the nearest, ties to even.
uint16_t to_half(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (size >= 65520.0f) return sign | 0x7c00;
  if (size < 0x1p-14f) return sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24f));
  const int exponent = std::ilogb(size);
  // A fraction that rounds up to 2048 carries into the exponent, as it should.
  const auto scaled = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + scaled);
}

float from_bfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

bool is_type(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}
size_t size_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

float load(const void* from, cudaDataType type, size_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(from)[i];
  const uint16_t bits = static_cast<const uint16_t*>(from)[i];
  return type == CUDA_R_16F ? from_half(bits) : from_bfloat16(bits);
}

void store(void* to, cudaDataType type, size_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(to)[i] = value;
  } else {
    static_cast<uint16_t*>(to)[i] = type == CUDA_R_16F ? to_half(value) : to_bfloat16(value);
  }
}

// Dense float copy of a column-major matrix.
std::vector<float> to_floats(const void* from, cudaDataType type, int rows, int columns,
                             int leading) {
  std::vector<float> dense(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  size_t out = 0;
  for (int column = 0; column < columns; ++column) {
    for (int row = 0; row < rows; ++row) {
      dense[out++] = load(
          from, type,
          static_cast<size_t>(column) * static_cast<size_t>(leading) + static_cast<size_t>(row));
    }
  }
  return dense;
}

struct Product {
  cublasOperation_t op_a, op_b;
  int m, n, k, lda, ldb, ldc;
  int rows_a() const { return op_a == CUBLAS_OP_N ? m : k; }
  int columns_a() const { return op_a == CUBLAS_OP_N ? k : m; }
  int rows_b() const { return op_b == CUBLAS_OP_N ? k : n; }
  int columns_b() const { return op_b == CUBLAS_OP_N ? n : k; }
  bool valid() const {
    return is_operation(op_a) && is_operation(op_b) && m >= 0 && n >= 0 && k >= 0 &&
           lda >= std::max(1, rows_a()) && ldb >= std::max(1, rows_b()) && ldc >= std::max(1, m);
  }
  bool empty() const { return m == 0 || n == 0; }
  void multiply(float alpha, const float* a, const float* b, float beta, float* c) const {
    cblas_sgemm(CblasColMajor, transpose(op_a), transpose(op_b), m, n, k, alpha, a, lda, b, ldb,
                beta, c, ldc);
  }
};

}  // namespace
}  // namespace kinet::emulation

using namespace kinet::emulation;

#define KINET_BLAS_CHECK(handle, valid)                          \
  const Lock lock(engine().mutex);                               \
  if ((handle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED; \
  if (!(valid)) return CUBLAS_STATUS_INVALID_VALUE

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown cuBLAS status";
}
const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  const Lock lock(engine().mutex);
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (engine().options.device_count < 1) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new Blas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  KINET_BLAS_CHECK(handle, true);
  drain_all();
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version) {
  KINET_BLAS_CHECK(handle, version != nullptr);
  *version = 130000;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  KINET_BLAS_CHECK(handle, true);
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  KINET_BLAS_CHECK(handle, stream != nullptr);
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  KINET_BLAS_CHECK(handle, true);
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  KINET_BLAS_CHECK(handle, mode != nullptr);
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  KINET_BLAS_CHECK(handle, true);
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
  KINET_BLAS_CHECK(handle, mode != nullptr);
  *mode = handle->pointers;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  KINET_BLAS_CHECK(handle, true);
  return run("cublasSetWorkspace", *handle, {{workspace, bytes, "workspace"}}, [] {});
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                           int m, int n, int k, const float* alpha, const float* a, int lda,
                           const float* b, int ldb, const float* beta, float* c, int ldc) {
  return cublasSgemmStridedBatched(handle, op_a, op_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta,
                                   c, ldc, 0, 1);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const float* alpha, const float* a, int lda,
                                         long long stride_a, const float* b, int ldb,
                                         long long stride_b, const float* beta, float* c, int ldc,
                                         long long stride_c, int batch) {
  const Product p{op_a, op_b, m, n, k, lda, ldb, ldc};
  KINET_BLAS_CHECK(handle, p.valid() && batch >= 0 && alpha != nullptr && beta != nullptr);
  if (p.empty()) return CUBLAS_STATUS_SUCCESS;
  const Scalar x(*handle, alpha), y(*handle, beta);
  for (int i = 0; i < batch; ++i) {
    const float *ai = a + i * stride_a, *bi = b + i * stride_b;
    float* ci = c + i * stride_c;
    const cublasStatus_t status =
        run(batch == 1 ? "cublasSgemm" : "cublasSgemmStridedBatched", *handle,
            {matrix(ai, p.rows_a(), p.columns_a(), lda, "A"),
             matrix(bi, p.rows_b(), p.columns_b(), ldb, "B"), matrix(ci, m, n, ldc, "C")},
            [=] { p.multiply(x.value(), ai, bi, y.value(), ci); });
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType type_a, int lda, const void* b, cudaDataType type_b,
                            int ldb, const void* beta, void* c, cudaDataType type_c, int ldc,
                            cublasComputeType_t, cublasGemmAlgo_t) {
  const Product given{op_a, op_b, m, n, k, lda, ldb, ldc};
  KINET_BLAS_CHECK(handle, given.valid() && alpha != nullptr && beta != nullptr);
  if (type_a != type_b || !is_type(type_a) || (type_c != CUDA_R_32F && type_c != type_a)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (given.empty()) return CUBLAS_STATUS_SUCCESS;
  const Scalar x(*handle, static_cast<const float*>(alpha));
  const Scalar y(*handle, static_cast<const float*>(beta));
  return run(
      "cublasGemmEx", *handle,
      {matrix(a, given.rows_a(), given.columns_a(), lda, "A", size_of(type_a)),
       matrix(b, given.rows_b(), given.columns_b(), ldb, "B", size_of(type_b)),
       matrix(c, m, n, ldc, "C", size_of(type_c))},
      [=] {
        const auto da = to_floats(a, type_a, given.rows_a(), given.columns_a(), lda);
        const auto db = to_floats(b, type_b, given.rows_b(), given.columns_b(), ldb);
        // With beta = 0 the old values are not read: they may be NaN.
        auto dc = y.value() == 0
                      ? std::vector<float>(static_cast<size_t>(m) * static_cast<size_t>(n))
                      : to_floats(c, type_c, m, n, ldc);
        const Product dense{
            op_a, op_b, m, n, k, std::max(1, given.rows_a()), std::max(1, given.rows_b()), m};
        dense.multiply(x.value(), da.data(), db.data(), y.value(), dc.data());
        for (int i = 0; i < m * n; ++i) {
          store(c, type_c,
                static_cast<size_t>(i / m) * static_cast<size_t>(ldc) + static_cast<size_t>(i % m),
                dc[static_cast<size_t>(i)]);
        }
      });
}

cublasStatus_t cublasSgemv(cublasHandle_t handle, cublasOperation_t op, int m, int n,
                           const float* alpha, const float* a, int lda, const float* x, int incx,
                           const float* beta, float* y, int incy) {
  KINET_BLAS_CHECK(handle, is_operation(op) && m >= 0 && n >= 0 && lda >= std::max(1, m) &&
                               incx != 0 && incy != 0 && alpha != nullptr && beta != nullptr);
  const Scalar scale(*handle, alpha), keep(*handle, beta);
  const bool plain = op == CUBLAS_OP_N;
  return run("cublasSgemv", *handle,
             {matrix(a, m, n, lda, "A"), vector(x, plain ? n : m, incx, "x"),
              vector(y, plain ? m : n, incy, "y")},
             [=] {
               cblas_sgemv(CblasColMajor, transpose(op), m, n, scale.value(), a, lda, x, incx,
                           keep.value(), y, incy);
             });
}

cublasStatus_t cublasSger(cublasHandle_t handle, int m, int n, const float* alpha, const float* x,
                          int incx, const float* y, int incy, float* a, int lda) {
  KINET_BLAS_CHECK(handle, m >= 0 && n >= 0 && lda >= std::max(1, m) && incx != 0 && incy != 0 &&
                               alpha != nullptr);
  const Scalar scale(*handle, alpha);
  return run("cublasSger", *handle,
             {vector(x, m, incx, "x"), vector(y, n, incy, "y"), matrix(a, m, n, lda, "A")},
             [=] { cblas_sger(CblasColMajor, m, n, scale.value(), x, incx, y, incy, a, lda); });
}

cublasStatus_t cublasSaxpy(cublasHandle_t handle, int n, const float* alpha, const float* x,
                           int incx, float* y, int incy) {
  KINET_BLAS_CHECK(handle, alpha != nullptr);
  const Scalar scale(*handle, alpha);
  return run("cublasSaxpy", *handle, {vector(x, n, incx, "x"), vector(y, n, incy, "y")},
             [=] { cblas_saxpy(n, scale.value(), x, incx, y, incy); });
}

cublasStatus_t cublasSscal(cublasHandle_t handle, int n, const float* alpha, float* x, int incx) {
  KINET_BLAS_CHECK(handle, alpha != nullptr);
  const Scalar scale(*handle, alpha);
  return run("cublasSscal", *handle, {vector(x, n, incx, "x")},
             [=] { cblas_sscal(n, scale.value(), x, incx); });
}

cublasStatus_t cublasScopy(cublasHandle_t handle, int n, const float* x, int incx, float* y,
                           int incy) {
  KINET_BLAS_CHECK(handle, true);
  return run("cublasScopy", *handle, {vector(x, n, incx, "x"), vector(y, n, incy, "y")},
             [=] { cblas_scopy(n, x, incx, y, incy); });
}

cublasStatus_t cublasSdot(cublasHandle_t handle, int n, const float* x, int incx, const float* y,
                          int incy, float* result) {
  KINET_BLAS_CHECK(handle, result != nullptr);
  return run(
      "cublasSdot", *handle, {vector(x, n, incx, "x"), vector(y, n, incy, "y")},
      [=] { *result = cblas_sdot(n, x, incx, y, incy); },
      handle->pointers == CUBLAS_POINTER_MODE_HOST);
}

cublasStatus_t cublasSasum(cublasHandle_t handle, int n, const float* x, int incx, float* result) {
  KINET_BLAS_CHECK(handle, result != nullptr);
  return run(
      "cublasSasum", *handle, {vector(x, n, incx, "x")}, [=] { *result = cblas_sasum(n, x, incx); },
      handle->pointers == CUBLAS_POINTER_MODE_HOST);
}

cublasStatus_t cublasSnrm2(cublasHandle_t handle, int n, const float* x, int incx, float* result) {
  KINET_BLAS_CHECK(handle, result != nullptr);
  return run(
      "cublasSnrm2", *handle, {vector(x, n, incx, "x")}, [=] { *result = cblas_snrm2(n, x, incx); },
      handle->pointers == CUBLAS_POINTER_MODE_HOST);
}
