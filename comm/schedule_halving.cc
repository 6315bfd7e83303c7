// Recursive halving and doubling: log2 N rounds each, partners ever nearer, then ever farther.
//
//   fold     N is no power of two: the odd ones of the first 2 (N - P) ranks give all they have to
//            the rank below them and wait for the result; P ranks go on, numbered 0 to P-1
//   halving  round l: partner = number xor P/2^(l+1); each sends the half that the other keeps,
//            and adds what it gets to the half it keeps
//   doubling the same rounds backwards: each sends what it has, into the partner's data
// The sum of an element is a tree over the ranks, the same in every run.
//
// Inbox: the fold first (a whole segment), then the kept halves one after another: together less
// than two segments.
#include <algorithm>

#include "comm/schedule.h"

namespace kinet {
namespace {

enum Phase : uint32_t { kHalve = 0, kDouble = 1, kFold = 2, kUnfold = 3 };

Slice data(const Range& r) { return {Place::kData, r.offset, -1}; }

struct Halving {
  explicit Halving(const Segment& segment)
      : s(segment), ranks(halving_pieces(segment.size)), extra(segment.size - ranks) {}

  bool folded() const { return s.rank < 2 * extra; }
  bool gives_away() const { return folded() && s.rank % 2 == 1; }
  int number() const { return folded() ? s.rank / 2 : s.rank - extra; }
  Rank rank_of(int number) const { return number < extra ? 2 * number : number + extra; }

  // Pieces first to end-1 are neighbours: one range.
  Range range(int first, int end) const {
    const Range& a = s.pieces[first];
    const Range& b = s.pieces[end - 1];
    return {a.offset, b.offset + b.bytes - a.offset};
  }
  Range all() const { return range(0, ranks); }

  void add(const Range& kept, uint64_t inbox, Schedule& out) const {
    out.source(data(kept));
    out.source({Place::kInbox, inbox, -1});
    out.sum(data(kept), kept.bytes);
  }

  void fold(Schedule& out) const {
    if (!folded()) return;
    if (gives_away()) {
      out.put(s.rank - 1, data(all()), {Place::kInbox, 0, -1}, all().bytes,
              arrival_number(s, kFold, 0));
      out.wait(s.rank - 1, arrival_number(s, kUnfold, 0));
    } else {
      out.wait(s.rank + 1, arrival_number(s, kFold, 0));
      add(all(), 0, out);
    }
  }

  void unfold(Schedule& out) const {
    if (!folded()) return;
    out.put(s.rank + 1, data(all()), data(all()), all().bytes, arrival_number(s, kUnfold, 0));
  }

  // Halves [first, end) until one piece is left, then calls itself back: doubling.
  void exchange(int first, int end, uint32_t round, uint64_t inbox, Schedule& out) const {
    if (end - first == 1) return;
    const int middle = (first + end) / 2, half = middle - first;
    const bool low = number() < middle;
    const Rank partner = rank_of(low ? number() + half : number() - half);
    const Range lower = range(first, middle), upper = range(middle, end);
    const Range& kept = low ? lower : upper;
    const Range& given = low ? upper : lower;
    // Both keep a half of nearly the same length; each part of the inbox has the longer one's.
    const uint64_t part = std::max(lower.bytes, upper.bytes);
    out.put(partner, data(given), {Place::kInbox, inbox, -1}, given.bytes,
            arrival_number(s, kHalve, round));
    out.wait(partner, arrival_number(s, kHalve, round));
    add(kept, inbox, out);
    exchange(low ? first : middle, low ? middle : end, round + 1, inbox + part, out);
    out.put(partner, data(kept), data(kept), kept.bytes, arrival_number(s, kDouble, round));
    out.wait(partner, arrival_number(s, kDouble, round));
  }

  const Segment& s;
  int ranks, extra;
};

}  // namespace

int halving_pieces(int size) {
  int out = 1;
  while (2 * out <= size) out *= 2;
  return out;
}

void halving_doubling_all_reduce(const Segment& s, Schedule& out) {
  const Halving h(s);
  h.fold(out);
  if (h.gives_away()) return;
  h.exchange(0, h.ranks, 0, h.all().bytes, out);
  h.unfold(out);
}

}  // namespace kinet
