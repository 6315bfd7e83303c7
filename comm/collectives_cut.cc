// From an operation to its segments, and from a segment to its schedule.
#include <algorithm>

#include "comm/collectives_impl.h"

namespace kinet {
namespace {

// Pieces of a segment that needs no inbox: many, since every segment costs two waits for the peers;
// not all, since a pump sums a segment in one go.
constexpr uint64_t kMappedPieces = 32;

uint64_t segments_of(uint64_t bytes, uint64_t each) { return (bytes + each - 1) / each; }

// The part number `index` of a range cut into parts of `each` bytes; empty beyond its end.
Range part_of(const Range& whole, uint64_t index, uint64_t each) {
  const uint64_t begin = std::min(whole.bytes, index * each);
  return {whole.offset + begin, std::min(each, whole.bytes - begin)};
}

Algorithm by_size(int ranks, uint64_t bytes) {
  constexpr uint64_t kShort = 256 << 10;  // bytes: below, rounds cost more than the bytes
  if (ranks <= kDirectRanks) return Algorithm::kDirect;
  return bytes <= kShort ? Algorithm::kHalvingDoubling : Algorithm::kRing;
}

}  // namespace

// A fold and all kept halves have to fit into an inbox of `size` pieces; borders are rounded to
// cache lines in each of at most 32 rounds.
uint64_t Collectives::Impl::halves_bytes() const {
  return (options.piece * static_cast<uint64_t>(size) / 2 - 32 * uint64_t{64}) / 64 * 64;
}

// Chooses algorithm and cut, and counts the segments.
void Collectives::Impl::plan(Operation& op) const {
  using Kind = Operation::Kind;
  using Cut = Operation::Cut;
  if (op.algorithm == Algorithm::kAuto) op.algorithm = by_size(size, op.bytes);
  const bool all_reduce = op.kind == Kind::kAllReduce;
  if (!all_reduce && op.algorithm == Algorithm::kHalvingDoubling) op.algorithm = Algorithm::kDirect;
  uint64_t longest_share = 0;  // borders lie on cache lines: any may be the longest
  for (Rank r = 0; r < size; ++r) {
    longest_share = std::max(longest_share, share_of(op.bytes, r, size).bytes);
  }
  if (op.kind == Kind::kBarrier) {
    op.cut = Cut::kWhole;
    op.segments = 1;
  } else if (op.kind == Kind::kReduce || op.kind == Kind::kBroadcast) {
    op.cut = Cut::kPieces;
    op.segments = segments_of(op.bytes, options.piece);
  } else if (op.algorithm == Algorithm::kHalvingDoubling) {
    op.cut = Cut::kHalves;
    op.segments = segments_of(op.bytes, halves_bytes());
  } else if (all_reduce && op.algorithm == Algorithm::kDirect && op.bytes <= options.piece &&
             op.bytes * (size - 1) <= options.flat_limit) {
    op.cut = Cut::kWhole;
    op.segments = op.bytes > 0 ? 1 : 0;
  } else if (all_reduce && op.algorithm == Algorithm::kDirect && all_mapped) {
    op.cut = Cut::kMapped;
    op.segments = op.bytes > 0 ? segments_of(longest_share, kMappedPieces * options.piece) : 0;
  } else {
    op.cut = Cut::kShares;
    op.segments = op.bytes > 0 ? segments_of(longest_share, options.piece) : 0;
  }
  if (size == 1) op.segments = 0;
}

void Collectives::Impl::fill(const Operation& op, uint64_t index, Segment& s) const {
  const Range whole{op.offset, op.bytes};
  const uint64_t each =
      op.cut == Operation::Cut::kMapped ? kMappedPieces * options.piece : options.piece;
  s.root = op.root;
  s.pieces.clear();
  switch (op.cut) {
    case Operation::Cut::kWhole:
      s.pieces.push_back(whole);
      break;
    case Operation::Cut::kPieces:
      s.pieces.push_back(part_of(whole, index, options.piece));
      break;
    case Operation::Cut::kShares:
    case Operation::Cut::kMapped:
      for (Rank r = 0; r < size; ++r) {
        Range share = share_of(op.bytes, r, size);
        share.offset += op.offset;
        s.pieces.push_back(part_of(share, index, each));
      }
      break;
    case Operation::Cut::kHalves: {
      const Range part = part_of(whole, index, halves_bytes());
      const int pieces = halving_pieces(size);
      for (int p = 0; p < pieces; ++p) {
        Range piece = share_of(part.bytes, p, pieces);
        piece.offset += part.offset;
        s.pieces.push_back(piece);
      }
      break;
    }
  }
}

void Collectives::Impl::generate(const Operation& op, const Segment& s, Schedule& out) {
  const bool ring = op.algorithm == Algorithm::kRing;
  out.clear();
  switch (op.kind) {
    case Operation::Kind::kAllReduce:
      if (op.cut == Operation::Cut::kWhole) {
        flat_all_reduce(s, out);
      } else if (op.cut == Operation::Cut::kHalves) {
        halving_doubling_all_reduce(s, out);
      } else {
        (ring ? ring_all_reduce : direct_all_reduce)(s, out);
      }
      break;
    case Operation::Kind::kReduceScatter:
      (ring ? ring_reduce_scatter : direct_reduce_scatter)(s, out);
      break;
    case Operation::Kind::kAllGather:
      (ring ? ring_all_gather : direct_all_gather)(s, out);
      break;
    case Operation::Kind::kReduce:
      tree_reduce(s, out);
      break;
    case Operation::Kind::kBroadcast:
      tree_broadcast(s, out);
      break;
    case Operation::Kind::kBarrier:
      kinet::barrier(s, out);
      break;
  }
  out.mark_last_puts(s.size);
}

}  // namespace kinet
