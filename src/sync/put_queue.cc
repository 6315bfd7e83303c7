#include "src/sync/put_queue.h"

namespace kinet {

PutQueue::PutQueue(Communicator& comm) : comm_(comm), peers_(comm.size()) {
  pump_ = comm_.add_pump([this] {
    for (Rank r = 0; r < comm_.size(); ++r) push(r);
  });
}

PutQueue::~PutQueue() { comm_.remove(pump_); }

uint64_t PutQueue::post(Rank peer, const RegionPut& put) {
  uint64_t ticket = 0;
  comm_.locked([&] {
    peers_[peer].waiting.push_back(put);
    ticket = ++peers_[peer].posted;
    push(peer);
  });
  return ticket;
}

void PutQueue::push(Rank peer) {
  Peer& p = peers_[peer];
  while (!p.waiting.empty()) {
    switch (comm_.put(peer, p.waiting.front())) {
      case Post::kAccepted:
        p.waiting.pop_front();
        p.marks.emplace_back(++p.accepted, comm_.puts_posted(peer));
        break;
      case Post::kBusy:
        comm_.retry_soon();
        return;
      case Post::kPeerLost:
        forget(peer);
        return;
    }
  }
}

bool PutQueue::done(Rank peer, uint64_t ticket) const {
  bool result = false;
  comm_.locked([&] {
    Peer& p = peers_[peer];
    const uint64_t completed = comm_.puts_completed(peer);
    while (!p.marks.empty() && p.marks.front().second <= completed) {
      p.finished = p.marks.front().first;
      p.marks.pop_front();
    }
    result = ticket <= p.finished;
  });
  return result;
}

void PutQueue::forget(Rank peer) {
  comm_.locked([&] {
    Peer& p = peers_[peer];
    p.waiting.clear();
    p.marks.clear();
    p.accepted = p.finished = p.posted;
  });
}

}  // namespace kinet
