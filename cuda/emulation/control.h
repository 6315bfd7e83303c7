// What only tests use: how the emulated device behaves, what it found, and what it counted.
//
// The device is one for the process, as a real one is for its driver; all of this may be called
// from any thread, but not from a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kinet::emulation {

enum class ThreadOrder { kForward, kBackward, kRandom };  // of threads, warps and blocks
const char* name_of(ThreadOrder order);

struct Options {
  ThreadOrder order = ThreadOrder::kForward;
  uint64_t seed = 1;  // of ThreadOrder::kRandom
  // Work on streams other than the default one is kept until something waits for it.
  bool lazy_streams = false;
  // A barrier that some threads of the block have left for good by returning is reported.
  bool exited_threads_are_faults = false;
  // In check mode: what take_access_statistics() gives is counted. Each access then costs several
  // times as much.
  bool access_statistics = false;
  int device_count = 1;
  int compute_capability = 80;               // major * 10 + minor
  size_t shared_memory_opt_in = 163 * 1024;  // bytes of dynamic shared memory with the attribute
  size_t memory_bytes = size_t{8} << 30;     // of the device
  bool refuse_host_register = false;         // as where locked memory is limited
};
Options options();
void set_options(const Options& options);

enum class Fault {
  kOutOfBounds,         // no live allocation there, or beyond the block's shared memory
  kHostMemory,          // a kernel uses memory of the host
  kUninitialised,       // shared memory read before it is written
  kRace,                // two threads, one writes, and nothing orders them
  kMisaligned,          // a vector access that is not aligned to its size
  kDeadlock,            // all threads wait, and nothing can end it
  kDivergentBarrier,    // threads of a block wait at different barriers
  kLaneOutsideMask,     // a warp operation whose mask lacks the caller
  kInactiveSource,      // a shuffle from a lane that takes no part
  kMixedWarpOperation,  // different operations under one mask
  kDeviceCall,          // a copy, fill or library call beyond an allocation
};
const char* name_of(Fault fault);

struct Report {
  Fault fault;
  std::string kernel;  // as written at the launch
  std::string place;   // file:line of the access or call, or module+offset
  std::string text;    // the whole report in one line
  int64_t count;       // the same fault of the same kernel at the same place
};
// Reports since the last call, oldest first; at most 64 different ones are kept.
std::vector<Report> take_reports();
// All of them, one a line; empty when there are none.
std::string text_of(const std::vector<Report>& reports);

// What the accesses of one place of a kernel cost, summed over the accesses of its warps: how well
// global memory is coalesced, and conflicts of banks of shared memory. How accesses of a warp are
// found, and what is not modelled: access_statistics.h.
struct AccessRow {
  std::string kernel;  // as written at the launch
  std::string place;   // file:line; of code in a function: "math.h:5 in kernel.cu:20"
  std::string access;  // "read 4": what a lane does, and its bytes
  bool shared = false;
  int64_t warps = 0;  // accesses of a warp
  int64_t lanes = 0;  // that took part in them
  int64_t paid = 0;   // global: sectors of 32 bytes; shared: ways, turns of the busiest bank
  int64_t least = 0;  // the same if every byte of a sector, every bank of a turn, were of use
  int64_t worst = 0;  // paid by one access
};
// Since the last call, what wastes most first. Needs Options::access_statistics, or in the
// environment KINET_CUDA_ACCESSES=<file>, to which the table is then written when the process ends.
std::vector<AccessRow> take_access_statistics();
std::string text_of(const std::vector<AccessRow>& rows);

struct Counters {
  int64_t launches = 0;
  int64_t threads = 0;
  int64_t switches = 0;     // of fibres
  int64_t accesses = 0;     // checked, in check mode
  int64_t allocations = 0;  // live now, of the device
  size_t bytes = 0;         // of those
};
Counters counters();

// Forgets streams' queues, allocations, errors, reports and counters; options and statistics stay.
void reset();

}  // namespace kinet::emulation
