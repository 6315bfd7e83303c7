// Puts that are never refused: what a transport has no room for now is kept and tried again
// whenever the communicator makes progress.
// Thread safety: post() and done() from one thread; retries run wherever the communicator polls,
// under its lock.
#pragma once

#include <deque>
#include <vector>

#include "comm/communicator.h"

namespace kinet {

class PutQueue {
 public:
  explicit PutQueue(Communicator& comm);
  ~PutQueue();
  PutQueue(const PutQueue&) = delete;
  PutQueue& operator=(const PutQueue&) = delete;

  // Returns a ticket for done(). The source must not change until then. A peer that is gone counts
  // as done.
  uint64_t post(Rank peer, const RegionPut& put);
  bool done(Rank peer, uint64_t ticket) const;
  // Nothing of what was posted to that peer before is tried any more: it is gone, or a successor
  // has taken its place.
  void forget(Rank peer);

 private:
  struct Peer {
    std::deque<RegionPut> waiting;
    uint64_t posted = 0;                              // handed over by post()
    uint64_t accepted = 0;                            // taken by the transport, or given up
    std::deque<std::pair<uint64_t, uint64_t>> marks;  // ticket, puts_posted() when it was taken
    uint64_t finished = 0;                            // tickets up to this one are done
  };
  void push(Rank peer);

  Communicator& comm_;
  mutable std::vector<Peer> peers_;
  int pump_ = 0;
};

}  // namespace kinet
