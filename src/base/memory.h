// How much memory this machine has, and the refusal of what cannot fit in it.
//
// Linux hands out more memory than there is and ends a process that then touches it; so what is
// larger than the machine is refused before it is touched. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace kinet {

uint64_t physical_memory();  // bytes of this machine, in use or not

// Throws a set-up Error "`what` needs 4.0 TB of memory, but this machine has 16.0 GB" when `floats`
// float32 values are more than all of the machine's memory.
void check_memory(uint64_t floats, const std::string& what);
// The same for `owner` ("GPU 0: NVIDIA H200") with `bytes` of memory.
void check_memory(uint64_t floats, const std::string& what, const std::string& owner,
                  uint64_t bytes);

}  // namespace kinet
