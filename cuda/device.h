// One opened CUDA device: a stream, a cuBLAS handle, memory (src/net/device.h).
//
// Three streams: all layers, copies and updates go to the first, in order; beside them gradients
// that are final leave on the second, and batches, sums and weights come on the third. Every call
// makes this device the calling thread's current
// one, so that several devices can be used by one process.
// Thread safety: one thread at a time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/caching_allocator.h"
#include "cuda/layer.h"
#include "src/net/device.h"

namespace kinet {

class CudaDevice : public Device {
 public:
  // Throws a run-time Error when the device cannot be used. REQUIRES: there is such a device
  explicit CudaDevice(int id);
  ~CudaDevice() override;

  Gpu& gpu() {
    make_current();
    return gpu_;
  }

  float* allocate(size_t floats) override;
  void release(float* memory) noexcept override;
  std::shared_ptr<float[]> allocate_host(size_t floats) override;
  std::shared_ptr<void> lock_pages(void* memory, size_t bytes, std::shared_ptr<void> owner,
                                   std::string* why) override;
  void upload(float* device, const float* host, size_t floats) override;
  void download(float* host, const float* device, size_t floats) override;
  uint64_t download_aside(float* host, const float* device, size_t floats) override;
  uint64_t mark() override;
  uint64_t upload_aside(float* device, const float* host, size_t floats, uint64_t after) override;
  void follow(uint64_t ticket) override;
  void wait(uint64_t ticket) override;
  void copy(float* to, const float* from, size_t floats) override;
  void fill(float* device, float value, size_t floats) override;
  double norm(const float* device, size_t floats) override;
  void finish_uploads() override;
  void synchronize() override;
  std::string description() const override { return description_; }
  size_t memory_bytes() const override { return memory_bytes_; }

  std::unique_ptr<Layer> make_layer(const std::string& type) const override;
  std::unique_ptr<DeviceOptimizer> make_optimizer(
      const std::string& type, const OptimizerSettings& settings,
      const std::vector<ParameterSegment>& segments) override;

 private:
  void make_current() const;
  void destroy() noexcept;
  cudaEvent_t take_event();
  uint64_t ticket_on(cudaStream_t stream);

  Gpu gpu_;
  std::string description_;
  size_t memory_bytes_ = 0;
  CachingAllocator allocator_;
  cudaStream_t downloads_ = nullptr, uploads_ = nullptr;  // beside the layers
  cudaEvent_t uploaded_ = nullptr;                        // behind the last upload
  bool uploading_ = false;                                // some upload may still read host memory
  cudaEvent_t reached_ = nullptr;                         // what a copy aside has to wait for
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, cudaEvent_t> unspent_;  // tickets
  std::vector<cudaEvent_t> events_;          // to be used again
  float* partial_sums_ = nullptr;            // of norm(), on the device
  std::shared_ptr<float[]> host_sums_;
};

}  // namespace kinet
