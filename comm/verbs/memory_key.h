// The registration of a piece of memory with a device, owned.
// REQUIRES: destroyed before its memory and its device.
#pragma once

#include <memory>

#include "comm/verbs/device.h"

namespace kinet::verbs {

class MemoryKey {
 public:
  // Peers may write into it. Throws Error with size, total, limit and remedy.
  MemoryKey(Device& device, void* data, size_t bytes, bool relaxed_ordering);
  ~MemoryKey();
  MemoryKey(const MemoryKey&) = delete;
  MemoryKey& operator=(const MemoryKey&) = delete;

  uint32_t local() const { return region_->lkey; }
  uint32_t remote() const { return region_->rkey; }

 private:
  Device& device_;
  size_t bytes_;
  ibv_mr* region_;
};

// The text of a registration that failed; `limit`: RLIMIT_MEMLOCK in bytes, ~0: none.
std::string registration_error(size_t bytes, size_t registered, int code, uint64_t limit);

uint64_t memory_lock_limit();

}  // namespace kinet::verbs
