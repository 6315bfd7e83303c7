#include "cuda/emulation/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cuda/emulation/builtins.h"
#include "cuda/emulation/checker.h"
#include "cuda/emulation/engine.h"

namespace kinet::emulation {

Builtins builtins = {};

namespace {

uint3 coordinates(int64_t linear, const dim3& shape) {
  const auto x = static_cast<int64_t>(shape.x), y = static_cast<int64_t>(shape.y);
  return {static_cast<unsigned>(linear % x), static_cast<unsigned>(linear / x % y),
          static_cast<unsigned>(linear / (x * y))};
}

}  // namespace

Scheduler* running() {
  Engine& e = engine();
  return e.in_launch ? &e.scheduler : nullptr;
}

void Scheduler::run(const Launch& launch, const Options& options) {
  launch_ = &launch;
  options_ = options;
  random_.seed(static_cast<uint_fast32_t>(options.seed * 2654435761u + 1));
  switches_ = 0;
  set_up_threads();
  builtins.block_shape = {launch.block.x, launch.block.y, launch.block.z};
  builtins.grid_shape = {launch.grid.x, launch.grid.y, launch.grid.z};
  const int64_t blocks = static_cast<int64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
  run_blocks(blocks);
  Counters& counters = engine().counters;
  counters.threads += blocks * static_cast<int64_t>(threads_.size());
  counters.switches += switches_;
  launch_ = nullptr;
}

void Scheduler::set_up_threads() {
  const dim3& shape = launch_->block;
  threads_.assign(static_cast<size_t>(shape.x) * shape.y * shape.z, Thread{});
  for (size_t i = 0; i < threads_.size(); ++i) {
    threads_[i].index = coordinates(static_cast<int64_t>(i), shape);
  }
  warps_.assign((threads_.size() + kWarpLanes - 1) / kWarpLanes, Warp{});
  start_order_.resize(threads_.size());
  std::iota(start_order_.begin(), start_order_.end(), 0);
  if (options_.order == ThreadOrder::kBackward) {
    std::reverse(start_order_.begin(), start_order_.end());
  }
}

void Scheduler::run_blocks(int64_t count) {
  if (options_.order == ThreadOrder::kRandom) {
    std::vector<int64_t> blocks(static_cast<size_t>(count));
    std::iota(blocks.begin(), blocks.end(), int64_t{0});
    std::shuffle(blocks.begin(), blocks.end(), random_);
    for (int64_t block : blocks) run_block(block);
    return;
  }
  const bool backward = options_.order == ThreadOrder::kBackward;
  for (int64_t i = 0; i < count; ++i) run_block(backward ? count - 1 - i : i);
}

void Scheduler::run_block(int64_t block) {
  block_ = block;
  builtins.block = coordinates(block, launch_->grid);
  engine().shared.begin_block();
  if (launch_->checked) checker().begin_block();
  live_ = static_cast<int>(threads_.size());
  waiting_ = 0;
  barriers_ = 0;
  for (Thread& thread : threads_) {
    thread.fibre = nullptr;
    thread.state = ThreadState::kRunnable;
  }
  for (size_t w = 0; w < warps_.size(); ++w) {
    const size_t lanes = std::min<size_t>(threads_.size() - w * kWarpLanes, kWarpLanes);
    warps_[w].live = lanes == kWarpLanes ? ~0u : (1u << lanes) - 1;
    warps_[w].groups.clear();
  }
  next_round_ = start_order_;
  while (live_ > 0) {
    if (!next_round_.empty()) {
      run_round();
    } else if (barrier_is_full()) {
      open_barrier();
    } else {
      give_up();
    }
  }
}

void Scheduler::run_round() {
  round_.swap(next_round_);
  next_round_.clear();
  if (options_.order == ThreadOrder::kRandom) std::shuffle(round_.begin(), round_.end(), random_);
  position_ = 0;
  while (position_ < round_.size()) resume(round_[position_++]);
}

void Scheduler::enter(int thread) {
  current_ = thread;
  builtins.thread = threads_[static_cast<size_t>(thread)].index;
  if (active_checker != nullptr) active_checker->enter(thread);
}

void Scheduler::resume(int thread) {
  Thread& t = threads_[static_cast<size_t>(thread)];
  enter(thread);
  if (t.fibre == nullptr) {
    t.fibre = pool_.take();
    t.fibre->prepare(fibre_main);
  }
  switches_ += 2;
  host_.switch_to(*t.fibre);
}

void Scheduler::fibre_main() {
  Scheduler& self = engine().scheduler;
  const Launch& launch = *self.launch_;
  for (;;) {
    launch.call(launch.kernel, launch.arguments.get());
    Fibre* const fibre = self.threads_[static_cast<size_t>(self.current_)].fibre;
    self.finish_thread();
    if (self.position_ < self.round_.size()) {
      const int next = self.round_[self.position_];
      Thread& thread = self.threads_[static_cast<size_t>(next)];
      if (thread.fibre == nullptr) {
        ++self.position_;
        thread.fibre = fibre;
        self.enter(next);
        continue;
      }
    }
    self.pool_.give_back(fibre);
    fibre->switch_to(self.host_);
  }
}

// The thread that runs has returned, or is ended for a fault.
void Scheduler::finish_thread() {
  Thread& thread = threads_[static_cast<size_t>(current_)];
  thread.state = ThreadState::kEnded;
  thread.fibre = nullptr;
  --live_;
  const int warp = current_ / kWarpLanes;
  warps_[static_cast<size_t>(warp)].live &= ~(1u << current_ % kWarpLanes);
  // Others of the warp may have waited for this lane alone.
  if (!warps_[static_cast<size_t>(warp)].groups.empty()) complete_ready_groups(warp);
}

void Scheduler::end_thread() {
  Fibre* const fibre = threads_[static_cast<size_t>(current_)].fibre;
  finish_thread();
  pool_.give_back(fibre);
  fibre->switch_to(host_);
  __builtin_unreachable();
}

void Scheduler::wait(ThreadState state) {
  Thread& thread = threads_[static_cast<size_t>(current_)];
  thread.state = state;
  thread.fibre->switch_to(host_);
}

void Scheduler::make_runnable(int thread) {
  threads_[static_cast<size_t>(thread)].state = ThreadState::kRunnable;
  next_round_.push_back(thread);
}

// No thread of the block can ever run again: one sample of each place where they wait.
void Scheduler::give_up() {
  std::vector<std::string> places;
  for (const Thread& thread : threads_) {
    if (thread.state == ThreadState::kEnded) continue;
    const bool barrier = thread.state == ThreadState::kAtBarrier;
    const std::string place = place_of(thread.request.file, thread.request.line);
    const std::string what = barrier
                                 ? "waits in __syncthreads at " + place
                                 : fmt::format("waits in a warp operation with mask {:#010x} at {}",
                                               thread.request.mask, place);
    if (std::any_of(places.begin(), places.end(),
                    [&](const std::string& other) { return other.ends_with(what); })) {
      continue;
    }
    places.push_back(fmt::format("thread ({}, {}, {}) {}", thread.index.x, thread.index.y,
                                 thread.index.z, what));
  }
  const auto first = std::find_if(threads_.begin(), threads_.end(), [](const Thread& thread) {
    return thread.state != ThreadState::kEnded;
  });
  report(Fault::kDeadlock, place_of(first->request.file, first->request.line),
         fmt::format("no thread of block ({}, {}, {}) can go on: {}", builtins.block.x,
                     builtins.block.y, builtins.block.z, fmt::join(places, "; ")));
  for (Thread& thread : threads_) {
    if (thread.state == ThreadState::kEnded) continue;
    pool_.give_back(thread.fibre);
    thread.state = ThreadState::kEnded;
  }
  live_ = 0;
}

}  // namespace kinet::emulation
