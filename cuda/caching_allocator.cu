#include "cuda/caching_allocator.h"
#include "cuda/gpu.h"

namespace kinet {
namespace {

#ifdef __CUDACC__
constexpr size_t kRounding = 512;  // bytes: the driver's own granularity
constexpr bool kKeeps = true;
#else
constexpr size_t kRounding = 1;
constexpr bool kKeeps = false;
#endif

void* from_driver(size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
  cudaGetLastError();  // a full device is no fault of the call that comes next
  return nullptr;
}

}  // namespace

void* CachingAllocator::allocate(size_t bytes) {
  const size_t rounded = (bytes + kRounding - 1) / kRounding * kRounding;
  const auto kept = free_.lower_bound(rounded);
  if (kept != free_.end() && kept->first <= rounded + rounded / 4) {
    const auto [size, memory] = *kept;
    free_.erase(kept);
    kept_ -= size;
    used_ += size;
    in_use_[memory] = size;
    return memory;
  }
  void* memory = from_driver(rounded);
  if (memory == nullptr && !free_.empty()) {
    clear();
    memory = from_driver(rounded);
  }
  if (memory == nullptr) return nullptr;
  used_ += rounded;
  in_use_[memory] = rounded;
  return memory;
}

void CachingAllocator::release(void* memory) noexcept {
  const auto block = in_use_.find(memory);
  if (block == in_use_.end()) return;
  used_ -= block->second;
  if (kKeeps) {
    free_.emplace(block->second, memory);
    kept_ += block->second;
  } else {
    cudaFree(memory);
  }
  in_use_.erase(block);
}

void CachingAllocator::clear() noexcept {
  for (const auto& [size, memory] : free_) cudaFree(memory);
  free_.clear();
  kept_ = 0;
}

}  // namespace kinet
