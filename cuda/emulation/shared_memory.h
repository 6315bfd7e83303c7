// Shared memory of the block that runs: the __shared__ variables of the kernel's module and the
// launch's dynamic shared memory.
//
// __shared__ variables are thread_local, so all of a module lie in its TLS segment of this host
// thread. Filling that segment with all-ones bytes gives every block fresh, poisoned variables. The
// segment of a module with many kernels is large (kinet's: half a megabyte), and one kernel uses
// little of it: at some launches of a kernel the whole of it is filled before and looked through
// after (and in the first one between some blocks), otherwise only what the kernel was seen to
// write is filled. Invariant: modules that hold kernels have no other thread_local variables; they
// would be lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace kinet::emulation {

struct Segment {
  char* begin = nullptr;
  size_t bytes = 0;
  bool contains(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - begin) < bytes;
  }
};

// The calling thread's TLS segment of the module that holds `code`; empty when it has none.
Segment tls_segment_of(const void* code);

class SharedMemory {
 public:
  static constexpr size_t kMaxDynamic = 228 * 1024;  // bytes, more than any device offers a block

  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void begin_launch(const void* kernel, size_t dynamic_bytes);
  void begin_block();  // fills both parts
  void end_launch();
  void forget();  // what kernels write: other modules may lie at their addresses later

  const Segment& statics() const { return statics_; }
  // Ends at the end of a page; behind it nothing may be touched.
  const Segment& dynamic() const { return dynamic_; }
  // Where dynamic memory may lie at all: an address here and not in dynamic() is beyond its end.
  const Segment& dynamic_space() const { return space_; }

 private:
  struct Use {
    int64_t launches = 0;
    std::vector<std::pair<size_t, size_t>> written;  // offset and bytes, in the TLS segment
  };
  void fill_written();
  void look_through();

  Segment statics_, dynamic_, space_;
  std::map<std::pair<const void*, char*>, Use> uses_;  // for each kernel and host thread (segment)
  Use* use_ = nullptr;                                 // of the launch that runs
  int64_t blocks_ = 0;                                 // that this launch has begun
};

}  // namespace kinet::emulation
