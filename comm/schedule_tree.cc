// Binomial trees for broadcast and reduce, and the barrier.
//
// Numbers count from the root: v = (rank - root) mod N. Parent of v: v without its lowest set bit.
//   N = 6:   0 -> 4, 2, 1     4 -> 5     2 -> 3
// A leaf of a tree knows nothing of the others, so both end with a barrier; see the invariant in
// comm/schedule.h.
#include "comm/schedule.h"

namespace kinet {
namespace {

enum Phase : uint32_t { kDown = 0, kUp = 1, kReady = 2, kRound = 3 };

struct Tree {
  explicit Tree(const Segment& segment)
      : s(segment), number((segment.rank - segment.root + segment.size) % segment.size) {}

  Rank rank_of(int v) const { return (v + s.root) % s.size; }
  bool is_root() const { return number == 0; }
  Rank parent() const { return rank_of(number & (number - 1)); }
  // Which child of its parent this one is: the position of the lowest set bit.
  uint32_t place() const {
    uint32_t bit = 0;
    while ((number >> bit) % 2 == 0) ++bit;
    return bit;
  }
  // Children are number + 2^k for k below the result.
  uint32_t children() const {
    uint32_t k = 0;
    while (number + (1 << k) < s.size && (is_root() || k < place())) ++k;
    return k;
  }
  Rank child(uint32_t k) const { return rank_of(number + (1 << k)); }

  const Segment& s;
  int number;
};

}  // namespace

void barrier(const Segment& s, Schedule& out) {
  uint32_t round = 0;
  for (int step = 1; step < s.size; step *= 2, ++round) {
    out.notify((s.rank + step) % s.size, arrival_number(s, kRound, round));
    out.wait((s.rank + s.size - step) % s.size, arrival_number(s, kRound, round));
  }
}

void tree_broadcast(const Segment& s, Schedule& out) {
  const Tree tree(s);
  const Range& piece = s.pieces[0];
  const Slice here{Place::kData, piece.offset, -1};
  if (!tree.is_root()) {
    out.notify(tree.parent(), arrival_number(s, kReady, tree.place()));
    out.wait(tree.parent(), arrival_number(s, kDown, 0));
  }
  for (uint32_t k = tree.children(); k-- > 0;) {  // the child with most descendants first
    out.wait(tree.child(k), arrival_number(s, kReady, k));
    out.put(tree.child(k), here, here, piece.bytes, arrival_number(s, kDown, 0));
  }
  barrier(s, out);
}

// Partial sums lie in the inbox, so that the data of all but the root stays as it was.
void tree_reduce(const Segment& s, Schedule& out) {
  const Tree tree(s);
  const Range& piece = s.pieces[0];
  const auto slot = [&](uint32_t k) { return Slice{Place::kInbox, s.slot * k, -1}; };
  Slice result{Place::kData, piece.offset, -1};
  const uint32_t children = tree.children();
  if (children > 0) {
    out.source(result);
    for (uint32_t k = 0; k < children; ++k) {
      out.wait(tree.child(k), arrival_number(s, kUp, k));
      out.source(slot(k));
    }
    if (!tree.is_root()) result = slot(children);
    out.sum(result, piece.bytes);
  }
  if (!tree.is_root()) {
    const uint32_t k = tree.place();
    out.put(tree.parent(), result, slot(k), piece.bytes, arrival_number(s, kUp, k));
  }
  barrier(s, out);
}

}  // namespace kinet
