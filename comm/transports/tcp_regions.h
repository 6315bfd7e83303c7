// The memory that a rank's tcp peers may put into. Thread safety: none; belongs to its transport.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "comm/transport.h"

namespace kinet {

// Memory that peers may write, by key. Keys are never used twice.
class TcpRegions {
 public:
  uint64_t add(const MemoryBlock& block) {
    blocks_[++last_key_] = block;
    return last_key_;
  }
  void remove(uint64_t key) { blocks_.erase(key); }
  // The place of `bytes` bytes at `offset`, or null.
  std::byte* place(uint64_t key, uint64_t offset, uint64_t bytes) const {
    const auto it = blocks_.find(key);
    if (it == blocks_.end()) return nullptr;
    const MemoryBlock& block = it->second;
    const bool inside = offset <= block.bytes && bytes <= block.bytes - offset;
    return inside ? block.data + offset : nullptr;
  }

 private:
  std::unordered_map<uint64_t, MemoryBlock> blocks_;
  uint64_t last_key_ = 0;
};

// Shares the table, so that it may be destroyed after its transport.
class TcpRegion : public MemoryRegion {
 public:
  TcpRegion(const MemoryBlock& block, std::shared_ptr<TcpRegions> regions)
      : MemoryRegion(block), regions_(std::move(regions)), key_(regions_->add(block)) {}
  ~TcpRegion() override { regions_->remove(key_); }
  RemoteRegion remote() const override { return {0, key_, bytes()}; }

 private:
  std::shared_ptr<TcpRegions> regions_;
  uint64_t key_;
};

}  // namespace kinet
