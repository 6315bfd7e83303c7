// Check mode: every memory access of a kernel is looked at before it happens.
//
// The compiler calls the functions of thread_sanitizer_hooks.cc; they call this. An access must be
// to device memory inside a live allocation, to pinned memory likewise, to the block's shared
// memory within its size, to the thread's own stack, to the launch's arguments, or to constants of
// the kernel's module. Shared memory must have been written before it is read (byte by byte). And
// two accesses to the same byte, one of which writes, must be ordered:
//
//   same thread; or a barrier of the block between them; or the same warp and a __syncwarp that
//   both lanes have taken part in (vector clocks); different blocks never. Two atomics need no
//   order.
//
// Each 4 bytes remember their last writer and their last two readers. So a race can go unseen when
// three threads read before a fourth writes, and never the other way round: what is reported is a
// race by the rules above.
// Thread safety: the host thread that launches; others pass the hooks without a check.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/emulation/access_statistics.h"
#include "cuda/emulation/arena.h"
#include "cuda/emulation/control.h"
#include "cuda/emulation/scheduler.h"
#include "cuda/emulation/shared_memory.h"

namespace kinet::emulation {

// Who touched bytes of a cell, and when. 16 bytes.
struct AccessRecord {
  uint32_t block;
  uint16_t thread;
  uint8_t bytes;  // bit i: byte i of the cell; 0: no record
  bool atomic;
  uint32_t barriers;  // of the block before the access
  uint32_t clock;     // of the lane
};

// Shadow of 4 bytes; one line of the cache.
struct alignas(64) Cell {
  AccessRecord write;
  std::array<AccessRecord, 2> reads;  // the last two of different threads, newest first
  uint64_t epoch;                     // launch (global memory) or block (shared memory) it is of
  uint8_t initialised;                // as AccessRecord::bytes
};

class Checker {
 public:
  Checker() = default;
  ~Checker();
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  void begin_launch(const Launch& launch);
  void begin_block();
  void end_launch();
  // The scheduler goes on with another thread.
  void enter(int thread) {
    now_.block = static_cast<uint32_t>(scheduler_->block());
    now_.thread = static_cast<uint16_t>(thread);
    now_.barriers = scheduler_->barriers();
    now_.clock = clocks_[static_cast<size_t>(thread)][thread % kWarpLanes];
  }

  // `pc`: the return address of the hook. Does not return when the access must not happen.
  void access(const void* address, size_t bytes, AccessKind kind, const void* pc);
  AccessStatistics& statistics() { return statistics_; }
  void misaligned(const void* address, const char* file, int line, size_t alignment);
  void warp_met(size_t first_thread, unsigned arrived,
                const std::array<const WarpRequest*, kWarpLanes>& requests);

 private:
  struct Span {
    const char* begin;
    const char* end;
  };
  using Clocks = std::array<uint32_t, kWarpLanes>;

  void map_shadow();
  void find_image(const void* kernel);
  bool in_image(const char* address, size_t bytes) const;
  void shared_access(const Segment& segment, std::vector<Cell>& cells, const char* address,
                     size_t bytes, AccessKind kind, const void* pc);
  void global_access(const char* address, size_t bytes, AccessKind kind, const void* pc);
  bool touched_before(const Cell& cell, uint8_t bytes, AccessKind kind) const;
  void touch(Cell& cell, uint8_t bytes, AccessKind kind, const char* address, const void* pc);
  bool ordered(const AccessRecord& before) const;
  void race(const AccessRecord& before, bool before_writes, AccessKind kind, const char* address,
            const void* pc);
  std::string describe(const void* address) const;
  // True when this fault of this place was told before in this launch, and only counted now.
  bool known(Fault fault, const void* pc);
  void tell(Fault fault, const void* pc, const std::string& text);

  Scheduler* scheduler_ = nullptr;
  const Arena* device_ = nullptr;
  const SharedMemory* shared_ = nullptr;
  AccessRecord now_{};      // of the thread that runs; bytes and atomic are filled in
  Cell* shadow_ = nullptr;  // of the device's arena
  std::vector<Cell> static_cells_, dynamic_cells_;
  std::vector<Clocks> clocks_;  // for each thread: what it knows of the lanes of its warp
  bool clocks_used_ = false;
  std::vector<Span> image_;
  Span arguments_{};
  uint64_t launch_ = 0;  // counted over the process
  uint64_t blocks_ = 0;  // likewise
  int64_t accesses_ = 0;
  AccessStatistics statistics_;
  std::unordered_map<uint64_t, size_t> known_;  // fault and pc -> report
  std::unordered_map<const void*, std::string> places_;
};

Checker& checker();

// Of the checked kernel that this host thread runs now; null when it runs none.
extern thread_local Checker* active_checker __attribute__((tls_model("initial-exec")));

// file:line of a code address where the module has debugging information, else module+offset.
std::string place_of(const void* pc);
// The same with the line of the kernel in which functions that hold the address were called:
// "reduce.h:30 in softmax.h:99".
std::string lines_of(const void* pc);

}  // namespace kinet::emulation
