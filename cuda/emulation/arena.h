// The emulated device's memory: a reserved piece of address space from which allocations are cut.
//
// Invariants: allocations are aligned to 256 bytes as cudaMalloc's are, at least 256 bytes lie
// between two of them, and addresses are used again only when the whole space has been used once,
// so that an access beyond the end or after the end of life is told from a right one. Thread
// safety: none; the engine's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kinet::emulation {

struct Allocation {
  const char* begin = nullptr;
  size_t bytes = 0;
  int64_t number = 0;  // counted from 1 since the start of the process
};

class Arena {
 public:
  static constexpr size_t kGranule = 256;             // bytes; alignment, and least gap
  static constexpr size_t kSpace = size_t{32} << 30;  // bytes of address space

  explicit Arena(const char* name) : name_(name) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Null when there is no room. The bytes are all ones.
  char* allocate(size_t bytes);
  // False when `pointer` is not the begin of a live allocation.
  bool free(const void* pointer);
  void free_all();

  bool contains(const void* address) const {
    return base_ != nullptr &&
           static_cast<size_t>(static_cast<const char*>(address) - base_) < kSpace;
  }
  // The live allocation whose granules hold `address`, or null. REQUIRES: contains(address)
  const Allocation* find(const void* address) const {
    const uint32_t slot = slots_[offset(address) / kGranule];
    return slot == 0 ? nullptr : &allocations_[slot];
  }
  // Whether [address, address + bytes) lies inside one live allocation.
  bool covers(const void* address, size_t bytes) const;
  // "offset 9000 of a 9000-byte allocation (device, number 3)", or what else is there.
  std::string describe(const void* address) const;

  size_t offset(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - base_);
  }
  size_t live() const { return live_.size(); }
  size_t live_bytes() const { return live_bytes_; }

 private:
  void reserve();
  size_t find_gap(size_t bytes) const;  // offset, or kSpace
  void mark(size_t begin, size_t bytes, uint32_t slot);

  const char* name_;
  char* base_ = nullptr;
  uint32_t* slots_ = nullptr;  // for each granule: index into allocations_, 0: none
  std::vector<Allocation> allocations_{1};
  std::vector<uint32_t> free_slots_;
  std::map<size_t, uint32_t> live_;  // offset -> slot
  size_t next_ = kGranule;
  size_t live_bytes_ = 0;
  int64_t made_ = 0;
};

}  // namespace kinet::emulation
