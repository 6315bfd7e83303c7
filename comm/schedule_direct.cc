// Schedules in which everybody speaks with everybody: flat, direct, and the parts of direct.
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

// Sums what all have contributed to `piece` into this rank's data, in the order of ranks.
void sum_in_rank_order(const Segment& s, const Range& piece, const std::vector<bool>* reads,
                       Schedule& out) {
  for (Rank r = 0; r < s.size; ++r) {
    if (r == s.rank) {
      out.source(data(piece.offset));
    } else if (reads != nullptr && (*reads)[r]) {
      out.source({Place::kPeerData, piece.offset, r});
    } else {
      out.source(slot(s, r));
    }
  }
  out.sum(data(piece.offset), piece.bytes);
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

void spread_own_piece(const Segment& s, Schedule& out) {
  const Range& own = s.pieces[s.rank];
  for_peers(s, [&](Rank peer) {
    out.put(peer, data(own.offset), data(own.offset), own.bytes,
            arrival_number(s, kResult, s.rank));
  });
  for_peers(s, [&](Rank peer) { out.wait(peer, arrival_number(s, kResult, peer)); });
}

}  // namespace

void flat_all_reduce(const Segment& s, Schedule& out) {
  const Range& all = s.pieces[0];
  for_peers(s, [&](Rank peer) {
    out.put(peer, data(all.offset), slot(s, s.rank), all.bytes,
            arrival_number(s, kContribution, s.rank));
  });
  for_peers(s, [&](Rank peer) { out.wait(peer, arrival_number(s, kContribution, peer)); });
  sum_in_rank_order(s, all, nullptr, out);
}

// A result may go into a peer's data: its contribution is here, so it has read those bytes, or this
// rank has.
void direct_all_reduce(const Segment& s, Schedule& out) {
  exchange_contributions(s, true, out);
  sum_in_rank_order(s, s.pieces[s.rank], &s.reads, out);
  spread_own_piece(s, out);
}

// Nobody reads another's data here: it could not tell when it has done so.
void direct_reduce_scatter(const Segment& s, Schedule& out) {
  exchange_contributions(s, false, out);
  sum_in_rank_order(s, s.pieces[s.rank], nullptr, out);
}

void direct_all_gather(const Segment& s, Schedule& out) {
  for_peers(s, [&](Rank peer) { out.notify(peer, arrival_number(s, kReady, s.rank)); });
  for_peers(s, [&](Rank peer) { out.wait(peer, arrival_number(s, kReady, peer)); });
  spread_own_piece(s, out);
}

}  // namespace kinet
