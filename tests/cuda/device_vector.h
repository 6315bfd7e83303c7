// An array in the emulated device's memory, for the kernels of these tests.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace kinet {

template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(size_t n) : n_(n) { cudaMalloc(&data_, n * sizeof(T)); }
  DeviceVector(const std::vector<T>& values) : DeviceVector(values.size()) {
    cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~DeviceVector() { cudaFree(data_); }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;

  T* data() const { return data_; }
  operator T*() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> host(n_);
    cudaMemcpy(host.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost);
    return host;
  }

 private:
  size_t n_;
  T* data_ = nullptr;
};

// Small whole numbers: sums of products are exact, in whatever order.
inline std::vector<float> whole_numbers(size_t n, int modulus) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(static_cast<int>(i * 7) % modulus);
  return values;
}

}  // namespace kinet
