// Schedules in which everybody speaks with everybody: flat, direct, and the parts of direct.
#include <algorithm>

#include "comm/schedule.h"

namespace kinet {
namespace {

enum Phase : uint32_t { kContribution = 0, kResult = 1, kReady = 0 };

Slice data(uint64_t offset) { return {Place::kData, offset, -1}; }

// The part of the inbox for what `from` sends.
Slice slot(const Segment& s, Rank from) {
  return {Place::kInbox, s.slot * static_cast<uint64_t>(from), -1};
}

// Peers in the order rank + 1, rank + 2, ...: not all ranks speak to rank 0 first.
template <class Action>
void for_peers(const Segment& s, const Action& action) {
  for (int i = 1; i < s.size; ++i) action((s.rank + i) % s.size);
}

// Sums what all have contributed to `piece`, a part of this rank's own, in the order of ranks. In a
// slot it lies as far from the start as in the own piece.
void sum_in_rank_order(const Segment& s, const Range& own, const Range& part,
                       const std::vector<bool>* reads, Schedule& out) {
  for (Rank r = 0; r < s.size; ++r) {
    if (r == s.rank) {
      out.source(data(part.offset));
    } else if (reads != nullptr && (*reads)[r]) {
      out.source({Place::kPeerData, part.offset, r});
    } else {
      Slice contribution = slot(s, r);
      contribution.offset += part.offset - own.offset;
      out.source(contribution);
    }
  }
  out.sum(data(part.offset), part.bytes);
}

// At least one: a piece of no bytes is a notification.
uint32_t steps_of(const Segment& s, const Range& piece) {
  return static_cast<uint32_t>(std::max<uint64_t>(1, (piece.bytes + s.step - 1) / s.step));
}

void exchange_contributions(const Segment& s, bool mapped, Schedule& out) {
  for_peers(s, [&](Rank peer) {
    const Range& piece = s.pieces[peer];
    const uint32_t arrival = arrival_number(s, kContribution, s.rank);
    if (mapped && s.read_by[peer]) {
      out.notify(peer, arrival);  // "my data is ready": it is read where it lies
    } else {
      out.put(peer, data(piece.offset), slot(s, s.rank), piece.bytes, arrival);
    }
  });
  for_peers(s, [&](Rank peer) { out.wait(peer, arrival_number(s, kContribution, peer)); });
}

void send_to_all(const Segment& s, const Range& part, Schedule& out) {
  for_peers(s, [&](Rank peer) {
    out.put(peer, data(part.offset), data(part.offset), part.bytes,
            arrival_number(s, kResult, s.rank));
  });
}

}  // namespace

// The sum may be written before the own puts have left, so these come from a copy: in the slot that
// nobody puts into.
void flat_all_reduce(const Segment& s, Schedule& out) {
  const Range& all = s.pieces[0];
  out.source(data(all.offset));
  out.sum(slot(s, s.rank), all.bytes);
  for_peers(s, [&](Rank peer) {
    out.put(peer, slot(s, s.rank), slot(s, s.rank), all.bytes,
            arrival_number(s, kContribution, s.rank));
  });
  for_peers(s, [&](Rank peer) { out.wait(peer, arrival_number(s, kContribution, peer)); });
  sum_in_rank_order(s, all, all, nullptr, out);
}

// A result may go into a peer's data: its contribution is here, so it has read those bytes, or this
// rank has. A part is put while it is still in the cache.
void direct_all_reduce(const Segment& s, Schedule& out) {
  const Range& own = s.pieces[s.rank];
  exchange_contributions(s, true, out);
  for (uint32_t i = 0; i < steps_of(s, own); ++i) {
    const uint64_t begin = i * s.step;
    const Range part{own.offset + begin, std::min(s.step, own.bytes - begin)};
    sum_in_rank_order(s, own, part, &s.reads, out);
    send_to_all(s, part, out);
  }
  for_peers(s, [&](Rank peer) {
    out.wait(peer, arrival_number(s, kResult, peer), steps_of(s, s.pieces[peer]));
  });
}

// Nobody reads another's data here: it could not tell when it has done so.
void direct_reduce_scatter(const Segment& s, Schedule& out) {
  const Range& own = s.pieces[s.rank];
  exchange_contributions(s, false, out);
  sum_in_rank_order(s, own, own, nullptr, out);
}

void direct_all_gather(const Segment& s, Schedule& out) {
  for_peers(s, [&](Rank peer) { out.notify(peer, arrival_number(s, kReady, s.rank)); });
  for_peers(s, [&](Rank peer) { out.wait(peer, arrival_number(s, kReady, peer)); });
  send_to_all(s, s.pieces[s.rank], out);
  for_peers(s, [&](Rank peer) { out.wait(peer, arrival_number(s, kResult, peer)); });
}

}  // namespace kinet
