#include "cuda/emulation/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

#include "src/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace kinet::emulation {
namespace {

constexpr size_t kPage = 4096;  // bytes

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

void* map_space(size_t bytes) {
  void* space = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  KINET_CHECK(space != MAP_FAILED,
              "no address space for the memory of the emulated CUDA device\n"
              "hint: it reserves (and does not use) {} GiB; see 'ulimit -v' and "
              "/proc/sys/vm/overcommit_memory",
              bytes >> 30);
  return space;
}

}  // namespace

Arena::~Arena() {
  if (base_ == nullptr) return;
  munmap(base_, kSpace);
  munmap(slots_, kSpace / kGranule * sizeof(uint32_t));
}

void Arena::reserve() {
  if (base_ != nullptr) return;
  base_ = static_cast<char*>(map_space(kSpace));
  slots_ = static_cast<uint32_t*>(map_space(kSpace / kGranule * sizeof(uint32_t)));
}

size_t Arena::find_gap(size_t bytes) const {
  for (size_t begin : {next_, kGranule}) {
    for (auto other = live_.lower_bound(begin); begin + bytes + kGranule <= kSpace; ++other) {
      if (other == live_.end() || begin + bytes + kGranule <= other->first) return begin;
      begin = round_up(other->first + allocations_[other->second].bytes, kGranule) + kGranule;
    }
  }
  return kSpace;
}

void Arena::mark(size_t begin, size_t bytes, uint32_t slot) {
  const size_t first = begin / kGranule;
  const size_t last = (begin + bytes - 1) / kGranule;
  for (size_t granule = first; granule <= last; ++granule) slots_[granule] = slot;
}

char* Arena::allocate(size_t bytes) {
  reserve();
  if (bytes > kSpace / 2) return nullptr;
  const size_t begin = find_gap(bytes);
  if (begin == kSpace) return nullptr;
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(allocations_.size()));
    allocations_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  allocations_[slot] = {base_ + begin, bytes, ++made_};
  live_[begin] = slot;
  live_bytes_ += bytes;
  mark(begin, bytes, slot);
  next_ = round_up(begin + bytes, kGranule) + kGranule;
  // What lies behind, up to the next allocation, stays poisoned.
  ASAN_UNPOISON_MEMORY_REGION(base_ + begin, bytes);
  std::memset(base_ + begin, 0xff, bytes);
  ASAN_POISON_MEMORY_REGION(base_ + begin + bytes, next_ - begin - bytes);
  return base_ + begin;
}

bool Arena::free(const void* pointer) {
  if (!contains(pointer)) return false;
  const auto entry = live_.find(offset(pointer));
  if (entry == live_.end()) return false;
  const auto [begin, slot] = *entry;
  const size_t bytes = allocations_[slot].bytes;
  live_.erase(entry);
  live_bytes_ -= bytes;
  mark(begin, bytes, 0);
  free_slots_.push_back(slot);
  const size_t first_page = round_up(begin, kPage);
  const size_t last_page = (begin + bytes) / kPage * kPage;
  if (first_page < last_page) madvise(base_ + first_page, last_page - first_page, MADV_DONTNEED);
  ASAN_POISON_MEMORY_REGION(base_ + begin, bytes);
  return true;
}

void Arena::free_all() {
  while (!live_.empty()) free(base_ + live_.begin()->first);
}

bool Arena::covers(const void* address, size_t bytes) const {
  if (!contains(address)) return false;
  const Allocation* allocation = find(address);
  if (allocation == nullptr) return false;
  const auto from = static_cast<size_t>(static_cast<const char*>(address) - allocation->begin);
  return from + bytes <= allocation->bytes;
}

std::string Arena::describe(const void* address) const {
  if (!contains(address)) return fmt::format("{}, which is no {} memory", fmt::ptr(address), name_);
  // The granule itself, or the last allocation before it: that is whose end was passed.
  auto after = live_.upper_bound(offset(address));
  if (after == live_.begin()) {
    return fmt::format("{}, in no live {} allocation", fmt::ptr(address), name_);
  }
  const Allocation& allocation = allocations_[std::prev(after)->second];
  const auto from = static_cast<const char*>(address) - allocation.begin;
  return fmt::format("offset {} of a {}-byte allocation ({}, number {})", from, allocation.bytes,
                     name_, allocation.number);
}

}  // namespace kinet::emulation
