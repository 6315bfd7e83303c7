// Coalescing and bank conflicts, counted from the accesses that check mode sees.
//
// On a device the 32 lanes of a warp make an access together; here they run one after the other. So
// the accesses that belong together are found by a rule: the n-th time that a lane comes to an
// access of the machine code, in this block, goes together with the n-th time of the other lanes of
// its warp. For each such access of a warp:
//
//   global memory   sectors: different 32-byte sectors touched, each of which is a transfer.
//                   The least possible: the different bytes asked for / 32.
//   shared memory   ways: the most different 4-byte words in one of the 32 banks, each of which
//                   costs a turn. The least possible: the different words / 32.
//
// Limits. Where lanes take an access a different number of times (a condition in a loop), the n-th
// times need not have been at one moment. What the host's compiler moves, merges or unrolls need
// not be what nvcc does. Caches are not modelled: a sector that a later access finds in a cache is
// counted again. Accesses of 8 and 16 bytes are taken as if a warp's lanes could be served in any
// order, so their ways are the least that a device needs. Atomics on one address are not counted as
// turns.
// Thread safety: as the checker's.
#pragma once

#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/emulation/control.h"
#include "cuda/emulation/scheduler.h"

namespace kinet::emulation {

enum class AccessKind : uint8_t { kRead, kWrite, kAtomic };

class AccessStatistics {
 public:
  // Counting begins with the next launch, and goes on until `on` is false at the start of one.
  void begin_launch(bool on, const std::string& kernel, size_t threads);
  bool on() const { return on_; }
  void add(const void* pc, AccessKind kind, bool shared, size_t thread, const char* address,
           size_t bytes);
  void end_block();
  std::vector<AccessRow> take();  // and forgets them

 private:
  // The n-th time of all lanes of a warp.
  struct WarpAccess {
    uint32_t lanes = 0;
    std::array<const char*, kWarpLanes> address;
  };
  struct Instruction {
    AccessRow* row = nullptr;
    size_t bytes = 0;
    std::vector<uint32_t> times;                 // by thread, in this block
    std::vector<std::vector<WarpAccess>> warps;  // by warp, then n
  };
  Instruction& instruction(const void* pc, AccessKind kind, bool shared, size_t bytes);

  bool on_ = false;
  std::string kernel_;
  size_t threads_ = 0;
  std::unordered_map<const void*, Instruction> instructions_;      // of this launch
  std::map<std::pair<std::string, const void*>, AccessRow> rows_;  // by kernel and place
};

}  // namespace kinet::emulation
