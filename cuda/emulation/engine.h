// The state of the emulated device and what all parts of the engine share.
//
// The device is one for the process, as a real one is for its driver: CUDA's functions take no
// object, so there is no other place for it. Everything is guarded by one lock, which a launch
// holds until its last thread has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/emulation/arena.h"
#include "cuda/emulation/control.h"
#include "cuda/emulation/runtime_api.h"
#include "cuda/emulation/scheduler.h"
#include "cuda/emulation/shared_memory.h"

namespace kinet::emulation {

constexpr size_t kSharedWithoutAttribute = 48 * 1024;  // bytes of dynamic shared memory

struct Engine {
  std::recursive_mutex mutex;
  Options options;
  Counters counters;
  Arena device{"device"};
  Arena pinned{"pinned host"};
  std::map<const void*, size_t> registered;  // cudaHostRegister: begin -> bytes
  SharedMemory shared;
  Scheduler scheduler;
  bool in_launch = false;
  cudaError_t sticky = cudaSuccess;
  std::vector<Report> reports;
  std::string access_file;                       // KINET_CUDA_ACCESSES
  std::map<const void*, size_t> dynamic_limits;  // cudaFuncSetAttribute: kernel -> bytes
};
Engine& engine();

using Lock = std::lock_guard<std::recursive_mutex>;

// Remembers `error` for cudaGetLastError() of this thread and returns it; a sticky error wins.
cudaError_t finish(cudaError_t error);

// Adds a report about the launch that runs (or about `where` outside of one), and makes the errors
// that a device would not survive sticky.
void report(Fault fault, const std::string& place, const std::string& text);
std::string place_of(const char* file, int line);
// "thread (3, 0, 0) of block (1, 0, 0)": the one that runs.
std::string running_thread();

// Runs a checked launch's set-up and the launch itself. REQUIRES: the lock is held.
void run_launch(const Launch& launch);

// Streams (streams.cc). Work is run at once, or kept by a lazy stream.
using Work = std::function<void()>;
void enqueue(cudaStream_t stream, Work work);
void drain_all();
void forget_streams();

}  // namespace kinet::emulation
