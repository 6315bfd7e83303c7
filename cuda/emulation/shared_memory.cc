#include "cuda/emulation/shared_memory.h"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "src/base/check.h"

namespace kinet::emulation {
namespace {

// The parameter of the function that compilers call for the address of a thread_local variable.
struct TlsIndex {
  unsigned long module;
  unsigned long offset;
};
extern "C" void* __tls_get_addr(TlsIndex* index);

struct Search {
  uintptr_t code;
  Segment found;
};

int look_into(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  bool holds_code = false;
  const ElfW(Phdr)* tls = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type == PT_LOAD) {
      holds_code |= search->code - (info->dlpi_addr + part.p_vaddr) < part.p_memsz;
    } else if (part.p_type == PT_TLS) {
      tls = &part;
    }
  }
  if (!holds_code) return 0;
  if (tls != nullptr) {
    // A module that was opened late gets its segment when it is first asked for.
    TlsIndex index{info->dlpi_tls_modid, 0};
    search->found = {static_cast<char*>(__tls_get_addr(&index)), tls->p_memsz};
  }
  return 1;
}

}  // namespace

Segment tls_segment_of(const void* code) {
  Search search{reinterpret_cast<uintptr_t>(code), {}};
  dl_iterate_phdr(look_into, &search);
  return search.found;
}

SharedMemory::SharedMemory() {
  // One page more behind it, not accessible: an overrun in fast mode ends in a fault.
  constexpr size_t kPage = 4096;
  const size_t bytes = kMaxDynamic + kPage;
  void* space = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KINET_CHECK(space != MAP_FAILED &&
                  mprotect(static_cast<char*>(space) + kMaxDynamic, kPage, PROT_NONE) == 0,
              "no memory for the shared memory of the CUDA emulation");
  space_ = {static_cast<char*>(space), bytes};
}

SharedMemory::~SharedMemory() { munmap(space_.begin, space_.bytes); }

// The first, the second, the fourth and so on.
static bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

void SharedMemory::begin_launch(const void* kernel, size_t dynamic_bytes) {
  statics_ = tls_segment_of(kernel);
  use_ = &uses_[{kernel, statics_.begin}];
  ++use_->launches;
  blocks_ = 0;
  if (is_power_of_two(use_->launches) && statics_.bytes > 0) {
    std::memset(statics_.begin, 0xff, statics_.bytes);
  }
  const size_t aligned = (dynamic_bytes + 15) / 16 * 16;
  dynamic_ = {space_.begin + kMaxDynamic - aligned, dynamic_bytes};
}

void SharedMemory::begin_block() {
  // The blocks of a first launch must know what those before them wrote.
  if (use_->launches == 1 && is_power_of_two(blocks_++)) look_through();
  fill_written();
  if (dynamic_.bytes > 0) std::memset(dynamic_.begin, 0xff, dynamic_.bytes);
}

void SharedMemory::end_launch() {
  if (is_power_of_two(use_->launches)) look_through();
  fill_written();  // other kernels of the module find it fresh
}

void SharedMemory::forget() { uses_.clear(); }

void SharedMemory::fill_written() {
  for (const auto& [offset, bytes] : use_->written) {
    std::memset(statics_.begin + offset, 0xff, bytes);
  }
}

// Adds the lines of the segment that are not all ones.
void SharedMemory::look_through() {
  constexpr size_t kLine = 256;  // bytes
  static const std::vector<char> fresh(kLine, '\xff');
  for (size_t offset = 0; offset < statics_.bytes; offset += kLine) {
    const size_t bytes = std::min(kLine, statics_.bytes - offset);
    if (std::memcmp(statics_.begin + offset, fresh.data(), bytes) == 0) continue;
    auto& written = use_->written;
    const auto place = std::lower_bound(written.begin(), written.end(), std::pair(offset, bytes));
    if (place != written.end() && place->first == offset) continue;
    written.insert(place, {offset, bytes});
  }
}

}  // namespace kinet::emulation
