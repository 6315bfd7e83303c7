// An array of plain values on the device, owned: tables, labels, statistics of a layer.
//
// Contents are zeros until written. upload() copies from memory that the caller may reuse at once
// (pageable memory is staged by the runtime before the call returns).
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/layer.h"

namespace kinet {

template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceArray() = default;
  DeviceArray(Gpu& gpu, const std::vector<T>& values) { upload(gpu, std::span<const T>(values)); }
  ~DeviceArray() { release(); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  // Room for `count` values; contents are lost when it grows.
  void resize(Gpu& gpu, size_t count) {
    if (count > capacity_) {
      release();
      gpu_ = &gpu;
      const size_t floats = (count * sizeof(T) + sizeof(float) - 1) / sizeof(float);
      memory_ = gpu.memory->allocate(floats);
      capacity_ = count;
    }
    size_ = count;
  }
  void upload(Gpu& gpu, std::span<const T> values) {
    resize(gpu, values.size());
    if (values.empty()) return;
    KINET_CUDA_CHECK(cudaMemcpyAsync(data(), values.data(), values.size_bytes(),
                                     cudaMemcpyHostToDevice, gpu.stream));
  }
  // Waits for the device.
  std::vector<T> download() const {
    std::vector<T> values(size_);
    if (size_ == 0) return values;
    KINET_CUDA_CHECK(cudaMemcpyAsync(values.data(), data(), size_ * sizeof(T),
                                     cudaMemcpyDeviceToHost, gpu_->stream));
    KINET_CUDA_CHECK(cudaStreamSynchronize(gpu_->stream));
    return values;
  }

  T* data() { return reinterpret_cast<T*>(memory_); }
  const T* data() const { return reinterpret_cast<const T*>(memory_); }
  size_t size() const { return size_; }

 private:
  void release() {
    if (memory_ != nullptr) gpu_->memory->release(memory_);
    memory_ = nullptr;
  }

  Gpu* gpu_ = nullptr;  // outlives the array: layers and rules die before their device
  float* memory_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace kinet
