#include "src/base/memory.h"

#include <unistd.h>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {

uint64_t physical_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return UINT64_MAX;  // not known: nothing is refused
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
}

void check_memory(uint64_t floats, const std::string& what) {
  check_memory(floats, what, "this machine", physical_memory());
}

void check_memory(uint64_t floats, const std::string& what, const std::string& owner,
                  uint64_t bytes) {
  if (floats <= bytes / sizeof(float)) return;
  const bool countable = floats <= UINT64_MAX / sizeof(float);
  fail("{} needs {} of memory, but {} has {}", what,
       countable ? human_bytes(floats * sizeof(float)) : "impossibly much", owner,
       human_bytes(bytes));
}

}  // namespace kinet
