// Ring: every rank speaks with its two neighbours only, each piece travels around.
//
//   round k of N-1, reduce-scatter:  rank r sends piece r-k-1, adds its own to piece r-k-2
//   round k of N-1, all-gather:      rank r sends piece r-k, receives piece r-k-1
// Piece p is summed in the order p+1, p+2, ..., p+N (modulo N): fixed, but not rank order.
#include "comm/schedule.h"

namespace kinet {
namespace {

enum Phase : uint32_t { kScatter = 0, kGather = 1, kReady = 2 };

Slice data(const Range& piece) { return {Place::kData, piece.offset, -1}; }

struct Ring {
  explicit Ring(const Segment& segment)
      : s(segment),
        next((segment.rank + 1) % segment.size),
        previous((segment.rank + segment.size - 1) % segment.size) {}
  // The piece that lies `back` ranks behind this one.
  const Range& piece(int back) const {
    return s.pieces[((s.rank - back) % s.size + s.size) % s.size];
  }

  void scatter(Schedule& out) const {
    for (int k = 0; k + 1 < s.size; ++k) {
      const Slice slot{Place::kInbox, s.slot * static_cast<uint64_t>(k), -1};
      const uint32_t arrival = arrival_number(s, kScatter, k);
      out.put(next, data(piece(k + 1)), slot, piece(k + 1).bytes, arrival);
      out.wait(previous, arrival);
      out.source(slot);
      out.source(data(piece(k + 2)));
      out.sum(data(piece(k + 2)), piece(k + 2).bytes);
    }
  }

  void gather(Schedule& out) const {
    for (int k = 0; k + 1 < s.size; ++k) {
      const uint32_t arrival = arrival_number(s, kGather, k);
      out.put(next, data(piece(k)), data(piece(k)), piece(k).bytes, arrival);
      out.wait(previous, arrival);
    }
  }

  const Segment& s;
  Rank next, previous;
};

}  // namespace

// A finished piece has gone through every rank before it comes back: all have used theirs.
void ring_all_reduce(const Segment& s, Schedule& out) {
  const Ring ring(s);
  ring.scatter(out);
  ring.gather(out);
}

void ring_reduce_scatter(const Segment& s, Schedule& out) { Ring(s).scatter(out); }

void ring_all_gather(const Segment& s, Schedule& out) {
  const Ring ring(s);
  if (s.size > 1) {
    out.notify(ring.previous, arrival_number(s, kReady, 0));
    out.wait(ring.next, arrival_number(s, kReady, 0));
  }
  ring.gather(out);
}

}  // namespace kinet
