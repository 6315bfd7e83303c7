// Shared memory of the block that runs: the __shared__ variables of the kernel's module and the
// launch's dynamic shared memory.
//
// __shared__ variables are thread_local, so all of a module lie in its TLS segment of this host
// thread. Filling that segment gives every block fresh (poisoned) variables; what lay there before
// the launch is put back behind it.
#pragma once

#include <cstddef>
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
  void begin_block();  // fills both parts with all-ones bytes
  void end_launch();

  const Segment& statics() const { return statics_; }
  // Ends at the end of a page; behind it nothing may be touched.
  const Segment& dynamic() const { return dynamic_; }
  // Where dynamic memory may lie at all: an address here and not in dynamic() is beyond its end.
  const Segment& dynamic_space() const { return space_; }

 private:
  Segment statics_, dynamic_, space_;
  std::vector<char> saved_;  // of statics_
};

}  // namespace kinet::emulation
