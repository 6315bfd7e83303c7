// Device memory and a device for tests that call CUDA launchers directly, in the emulation or
// (KINET_TEST_ON_GPU, compiled by nvcc) on a real device.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cuda/layer.h"
#include "tests/cuda/thread_orders.h"

namespace kinet {

// An allocation of its own, exactly as long as asked for.
class DeviceFloats {
 public:
  explicit DeviceFloats(size_t count) : count_(count) {
    KINET_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()));
  }
  explicit DeviceFloats(const std::vector<float>& values) : DeviceFloats(values.size()) {
    KINET_CUDA_CHECK(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  ~DeviceFloats() { cudaFree(data_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  float* get() { return data_; }
  const float* get() const { return data_; }
  std::vector<float> values() const {
    std::vector<float> result(count_);
    KINET_CUDA_CHECK(cudaMemcpy(result.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  size_t bytes() const { return count_ * sizeof(float); }

  float* data_ = nullptr;
  size_t count_;
};

// The default stream and a cuBLAS handle, with threads in the given order.
class TestGpu {
 public:
  explicit TestGpu(const std::string& thread_order = thread_orders().front()) {
    use_thread_order(thread_order);
    KINET_CUBLAS_CHECK(cublasCreate(&gpu_.blas));
    cudaDeviceProp properties{};
    KINET_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    gpu_.multiprocessors = properties.multiProcessorCount;
    gpu_.shared_bytes_of_block = properties.sharedMemPerBlockOptin;
  }
  ~TestGpu() { cublasDestroy(gpu_.blas); }
  TestGpu(const TestGpu&) = delete;
  TestGpu& operator=(const TestGpu&) = delete;
  operator const Gpu&() const { return gpu_; }

 private:
  Gpu gpu_;
};

// The first value that is not within 1e-4 * max(|b|, rms of b) of its counterpart; "" when all are.
inline std::string differences(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return fmt::format("{} values for {}", a.size(), b.size());
  double squares = 0;
  for (const float value : b) squares += double{value} * value;
  const double rms = std::sqrt(squares / static_cast<double>(std::max<size_t>(b.size(), 1)));
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-4 * std::max<double>(std::abs(b[i]), rms))) {
      return fmt::format("at {}: {} instead of {}", i, a[i], b[i]);
    }
  }
  return "";
}

}  // namespace kinet
