// Flow control of one link: nobody sends what the peer has no receive for.
//
// Each side grants the other `granted` receives. A message and a put each consume one; the peer
// hands them back when it has posted new ones, along with its own messages, or in a message made
// for that. One more receive is kept aside for this last kind, so that two ranks without credit
// can still give each other some.
//   granted 8, return at 4:  A sends 8 (credit 0) .. B has posted 4 again: B returns 4 ..
//   A has 4 .. B at 0 itself: B's return takes the reserve; it is back with A's next return
// Invariants: receives consumed and not yet handed back <= granted + 1; a return carries at least
// half of the grant, so returns never answer returns for ever.
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kinet::verbs {

class Credits {
 public:
  Credits() = default;
  // `mine`: what the peer grants me; `theirs`: what I grant the peer. Both without the reserve.
  Credits(int mine, int theirs) : available_(mine), threshold_(std::max(theirs / 2, 2)) {}

  // ---- as a sender
  bool has(int count) const { return available_ >= count; }
  void use(int count) { available_ -= count; }
  bool may_return() const { return available_ > 0 || reserve_; }
  void use_for_return() {
    if (available_ > 0) {
      --available_;
    } else {
      reserve_ = false;
    }
  }
  // The peer has handed `count` back. The reserve is made whole first.
  void refill(int count) {
    if (count > 0 && !reserve_) {
      reserve_ = true;
      --count;
    }
    available_ += count;
  }
  int available() const { return available_; }

  // ---- as a receiver
  void reposted() { ++owed_; }
  bool return_is_due() const { return owed_ >= threshold_; }
  // What goes along with the message that is about to leave.
  int take_owed() {
    const int out = std::min(owed_, kMostAtOnce);
    owed_ -= out;
    return out;
  }
  int owed() const { return owed_; }

  static constexpr int kMostAtOnce = (1 << 14) - 1;  // what fits into immediate data, wire.h

 private:
  int available_ = 0;
  int owed_ = 0;
  int threshold_ = 2;
  bool reserve_ = true;
};

}  // namespace kinet::verbs
