// Runs the blocks of one launch, one after the other, on the calling host thread.
//
// A thread of a block runs in a fibre until it waits or ends. Threads that can run are kept in a
// round; those that become runnable meanwhile run in the next one. When no thread can run and all
// that live wait at the block's barrier, the barrier opens; when that is not so, the block is given
// up and the report says where its threads wait. So no kernel can hang.
//
// A fibre whose thread has ended takes the next thread that has not started: kernels without
// barriers need one fibre and no switch for each thread.
// Thread safety: none; the engine runs one launch at a time.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "cuda/emulation/control.h"
#include "cuda/emulation/fibre.h"
#include "cuda/emulation/launch.h"
#include "cuda/emulation/warp.h"

namespace kinet::emulation {

constexpr int kWarpLanes = 32;
constexpr int kMaxThreads = 1024;  // of a block

enum class ThreadState : uint8_t { kRunnable, kAtBarrier, kInWarp, kEnded };

struct Thread {
  Fibre* fibre = nullptr;  // null until it starts
  ThreadState state = ThreadState::kRunnable;
  uint3 index{};
  int predicate = 0;      // brought to a barrier
  WarpRequest request{};  // also says where the thread waits at a barrier
  uint64_t result = 0;
};

// The lanes of a warp that have come to an operation with one mask.
struct WarpGroup {
  unsigned mask = 0;
  unsigned arrived = 0;
};
struct Warp {
  unsigned live = 0;  // lanes that have not ended
  std::vector<WarpGroup> groups;
};

class Scheduler {
 public:
  void run(const Launch& launch, const Options& options);

  // Called on the fibre of the thread that runs.
  int barrier(BarrierKind kind, int predicate, const char* file, int line);
  uint64_t warp(const WarpRequest& request);
  [[noreturn]] void end_thread();  // after a fault

  // For reports and for the checker.
  const Launch& launch() const { return *launch_; }
  int thread() const { return current_; }
  const uint3& thread_index() const { return threads_[static_cast<size_t>(current_)].index; }
  int64_t block() const { return block_; }  // linear
  uint32_t barriers() const { return barriers_; }
  bool on_fibre(const void* address) const { return pool_.contains(address); }
  const Thread& thread_at(int thread) const { return threads_[static_cast<size_t>(thread)]; }

 private:
  void set_up_threads();
  void run_blocks(int64_t count);
  void run_block(int64_t block);
  void run_round();
  void resume(int thread);
  void enter(int thread);
  static void fibre_main();
  void finish_thread();
  void wait(ThreadState state);
  bool barrier_is_full() const { return waiting_ == live_; }
  void open_barrier();
  void give_up();
  void make_runnable(int thread);
  void complete(int warp_index, size_t group);
  void complete_ready_groups(int warp_index);
  void check_request(const WarpRequest& request, const Warp& warp) const;

  Options options_;
  FibrePool pool_;
  Fibre host_;
  std::minstd_rand random_;
  const Launch* launch_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<int> round_, next_round_, start_order_;
  size_t position_ = 0;  // in round_
  int current_ = 0;
  int live_ = 0;     // threads that have not ended
  int waiting_ = 0;  // at the barrier
  int64_t block_ = 0;
  uint32_t barriers_ = 0;  // opened in this block
  int64_t switches_ = 0;
};

// The scheduler of the launch that runs; null outside launches.
Scheduler* running();

// What lane `lane` gets from the operation, given all requests of the warp. REQUIRES: `arrived`
// are the lanes that take part. `missing_source` becomes the lane whose value was asked for and
// that takes no part, or -1.
uint64_t warp_result(const std::array<const WarpRequest*, kWarpLanes>& requests, unsigned arrived,
                     int lane, int* missing_source);

}  // namespace kinet::emulation
