// Device memory that is kept when it is given back: asking the driver takes a millisecond and waits
// for all kernels, so a net whose shapes change would stop at every change.
//
// A block is used anew for requests of its own (rounded) size or up to a quarter less. When the
// device is full, all that is kept is returned to the driver first. Under the host emulation
// nothing is kept and nothing rounded: every block is an allocation of its own, of exactly the size
// that was asked for, so that an access one float beyond it is found. Order: a block that comes
// back may still be used by kernels of the device's stream; it is handed out for later work of the
// same stream only. Thread safety: none; the device sees to it.
#pragma once

#include <cstddef>
#include <map>

namespace kinet {

class CachingAllocator {
 public:
  CachingAllocator() = default;
  ~CachingAllocator() { clear(); }
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Not initialised. Null when the device is full. REQUIRES: bytes > 0; the device is current
  void* allocate(size_t bytes);
  void release(void* memory) noexcept;
  void clear() noexcept;  // returns what is kept

  size_t used_bytes() const { return used_; }  // handed out
  size_t kept_bytes() const { return kept_; }

 private:
  std::multimap<size_t, void*> free_;  // by size
  std::map<void*, size_t> in_use_;
  size_t used_ = 0, kept_ = 0;
};

}  // namespace kinet
