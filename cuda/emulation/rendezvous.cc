// Where threads wait for each other: barriers of blocks and operations of warps.
#include <fmt/format.h>

#include <bit>

#include "cuda/emulation/builtins.h"
#include "cuda/emulation/checker.h"
#include "cuda/emulation/engine.h"
#include "cuda/emulation/scheduler.h"

namespace kinet::emulation {

int Scheduler::barrier(BarrierKind kind, int predicate, const char* file, int line) {
  Thread& thread = threads_[static_cast<size_t>(current_)];
  thread.request.file = file;
  thread.request.line = line;
  thread.request.argument = static_cast<int>(kind);
  thread.predicate = predicate;
  ++waiting_;
  wait(ThreadState::kAtBarrier);
  return static_cast<int>(thread.result);
}

void Scheduler::open_barrier() {
  const Thread* first = nullptr;
  int count = 0;
  for (const Thread& thread : threads_) {
    if (thread.state != ThreadState::kAtBarrier) continue;
    count += thread.predicate != 0;
    if (first == nullptr) first = &thread;
    if (thread.request.line != first->request.line || thread.request.file != first->request.file) {
      report(Fault::kDivergentBarrier, place_of(thread.request.file, thread.request.line),
             fmt::format("threads of block ({}, {}, {}) meet at different barriers: thread ({}, "
                         "{}, {}) at {}, thread ({}, {}, {}) at {}",
                         builtins.block.x, builtins.block.y, builtins.block.z, first->index.x,
                         first->index.y, first->index.z,
                         place_of(first->request.file, first->request.line), thread.index.x,
                         thread.index.y, thread.index.z,
                         place_of(thread.request.file, thread.request.line)));
    }
  }
  if (options_.exited_threads_are_faults && live_ < static_cast<int>(threads_.size())) {
    report(Fault::kDivergentBarrier, place_of(first->request.file, first->request.line),
           fmt::format("{} of {} threads of block ({}, {}, {}) have returned before this barrier",
                       static_cast<int>(threads_.size()) - live_, threads_.size(), builtins.block.x,
                       builtins.block.y, builtins.block.z));
  }
  for (int i : start_order_) {
    Thread& thread = threads_[static_cast<size_t>(i)];
    if (thread.state != ThreadState::kAtBarrier) continue;
    switch (static_cast<BarrierKind>(thread.request.argument)) {
      case BarrierKind::kPlain:
        break;
      case BarrierKind::kCount:
        thread.result = static_cast<uint64_t>(count);
        break;
      case BarrierKind::kAnd:
        thread.result = count == waiting_;
        break;
      case BarrierKind::kOr:
        thread.result = count > 0;
        break;
    }
    make_runnable(i);
  }
  waiting_ = 0;
  ++barriers_;
}

void Scheduler::check_request(const WarpRequest& request, const Warp& warp) const {
  const int lane = current_ % kWarpLanes;
  if ((request.mask >> lane & 1u) == 0) {
    report(Fault::kLaneOutsideMask, place_of(request.file, request.line),
           fmt::format("{} is lane {}, which is not in its own mask {:#010x}", running_thread(),
                       lane, request.mask));
  }
  for (const WarpGroup& group : warp.groups) {
    if (group.mask != request.mask || group.arrived == 0) continue;
    const int other = current_ - lane + std::countr_zero(group.arrived);
    const WarpRequest& waiting = threads_[static_cast<size_t>(other)].request;
    if (waiting.kind != request.kind) {
      report(Fault::kMixedWarpOperation, place_of(request.file, request.line),
             fmt::format("{} joins lanes that wait for another operation with the same mask "
                         "{:#010x} at {}",
                         running_thread(), request.mask, place_of(waiting.file, waiting.line)));
    }
  }
}

uint64_t Scheduler::warp(const WarpRequest& request) {
  const int warp_index = current_ / kWarpLanes;
  const unsigned lane = 1u << current_ % kWarpLanes;
  Warp& warp = warps_[static_cast<size_t>(warp_index)];
  Thread& thread = threads_[static_cast<size_t>(current_)];
  check_request(request, warp);
  thread.request = request;
  if (!std::has_single_bit(static_cast<unsigned>(request.width)) || request.width > kWarpLanes) {
    thread.request.width = kWarpLanes;
  }
  const unsigned mask = request.mask | lane;
  size_t group = 0;
  while (group < warp.groups.size() && warp.groups[group].mask != mask) ++group;
  if (group == warp.groups.size()) warp.groups.push_back({mask, 0});
  warp.groups[group].arrived |= lane;
  thread.state = ThreadState::kInWarp;
  if (warp.groups[group].arrived == (mask & warp.live)) {
    complete(warp_index, group);  // makes all runnable but this one, which just goes on
    return thread.result;
  }
  wait(ThreadState::kInWarp);
  return thread.result;
}

void Scheduler::complete(int warp_index, size_t group) {
  Warp& warp = warps_[static_cast<size_t>(warp_index)];
  const unsigned arrived = warp.groups[group].arrived;
  const int first_thread = warp_index * kWarpLanes;
  std::array<const WarpRequest*, kWarpLanes> requests{};
  Thread* const lanes = &threads_[static_cast<size_t>(first_thread)];
  for (size_t lane = 0; lane < kWarpLanes; ++lane) {
    if (arrived >> lane & 1u) requests[lane] = &lanes[lane].request;
  }
  if (launch_->checked) {
    checker().warp_met(static_cast<size_t>(first_thread), arrived, requests);
  }
  for (int i = 0; i < kWarpLanes; ++i) {
    const int lane = options_.order == ThreadOrder::kBackward ? kWarpLanes - 1 - i : i;
    if ((arrived >> lane & 1u) == 0) continue;
    Thread& thread = lanes[lane];
    int missing = -1;
    thread.result = warp_result(requests, arrived, lane, &missing);
    if (missing >= 0) {
      report(Fault::kInactiveSource, place_of(thread.request.file, thread.request.line),
             fmt::format("lane {} of block ({}, {}, {}) reads lane {}, which takes no part (mask "
                         "{:#010x})",
                         lane, builtins.block.x, builtins.block.y, builtins.block.z, missing,
                         thread.request.mask));
    }
    if (first_thread + lane == current_) {
      thread.state = ThreadState::kRunnable;  // runs already, or has ended
    } else {
      make_runnable(first_thread + lane);
    }
  }
  warp.groups.erase(warp.groups.begin() + static_cast<ptrdiff_t>(group));
}

void Scheduler::complete_ready_groups(int warp_index) {
  Warp& warp = warps_[static_cast<size_t>(warp_index)];
  for (size_t group = warp.groups.size(); group-- > 0;) {
    if (warp.groups[group].arrived == (warp.groups[group].mask & warp.live)) {
      complete(warp_index, group);
    }
  }
}

int block_barrier(BarrierKind kind, int predicate, const char* file, int line) {
  return engine().scheduler.barrier(kind, predicate, file, line);
}

uint64_t warp_operation(const WarpRequest& request) { return engine().scheduler.warp(request); }

unsigned active_mask() { return 1u << engine().scheduler.thread() % kWarpLanes; }

}  // namespace kinet::emulation
