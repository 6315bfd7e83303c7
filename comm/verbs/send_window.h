// The send queue of one queue pair: how many work requests are under way, and which of them ask
// for a completion (one in `signal_every`; the send queue moves on with each).
//
//   signal_every 4:  request 1 2 3: silent, 4: signalled .. completion of 4: room for four more
// Invariant: since signal_every <= depth / 2, a full window has a signalled request under way.
// Thread safety: none.
#pragma once

#include <cstdint>

namespace kinet::verbs {

class SendWindow {
 public:
  SendWindow() = default;
  SendWindow(int depth, int signal_every) : depth_(depth), every_(signal_every) {}

  // `reserve`: requests kept free for those that hand credits back.
  bool has_room(uint64_t requests, uint64_t reserve = 0) const {
    return posted_ - completed_ + requests + reserve <= depth_;
  }
  uint64_t room() const { return depth_ - (posted_ - completed_); }

  // The next request's number, from 1.
  uint64_t next() const { return posted_ + 1; }
  // Counts a request; true: it asks for a completion.
  bool post(bool must_signal) {
    ++posted_;
    const bool signalled = must_signal || posted_ - signalled_ >= every_;
    if (signalled) signalled_ = posted_;
    return signalled;
  }
  // Request `number` and all before it are done.
  void complete(uint64_t number) {
    if (number > completed_) completed_ = number;
  }
  uint64_t posted() const { return posted_; }
  uint64_t completed() const { return completed_; }
  bool ends_silent() const { return posted_ > signalled_; }
  bool waits_for_signal() const { return signalled_ > completed_; }

 private:
  uint64_t depth_ = 0, every_ = 1;
  uint64_t posted_ = 0, completed_ = 0, signalled_ = 0;
};

}  // namespace kinet::verbs
