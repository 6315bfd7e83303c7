// The queue that tells what work requests have done, and the channel that wakes a sleeper.
//
// Sleeping: arm(), poll once more, then wait until fd() is readable; take_event() makes it quiet
// again. Thread safety: one thread.
#pragma once

#include <memory>
#include <span>

#include "comm/verbs/device.h"

namespace kinet::verbs {

class CompletionQueue {
 public:
  // Throws Error when the device has no such depth.
  CompletionQueue(Device& device, int depth);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Fills `out` from its front; returns how many. No system call.
  int poll(std::span<ibv_wc> out) {
    const int count = ibv_poll_cq(queue_, static_cast<int>(out.size()), out.data());
    return count < 0 ? 0 : count;
  }

  void arm() { ibv_req_notify_cq(queue_, 0); }
  bool take_event();  // true: there was one
  int fd() const { return channel_->fd; }
  ibv_cq* get() const { return queue_; }
  int depth() const { return queue_->cqe; }

 private:
  ibv_comp_channel* channel_;
  ibv_cq* queue_ = nullptr;
};

}  // namespace kinet::verbs
