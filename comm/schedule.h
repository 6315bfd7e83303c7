// Schedules: what one rank does for one segment of a collective operation, as a list of steps.
//
//   kPut    put bytes into a peer's data or inbox, with an arrival number for the peer's kWait
//   kWait   until so many puts with that arrival number are here
//   kSum    to = ((source 0 + source 1) + source 2) + ..., floats
// Steps run in order; a step that has to wait holds up its own segment only. The generators below
// are pure functions, so that a test can run all ranks of a schedule on plain arrays.
//
// A source may change as soon as it is known to have been read. That a put has arrived is known
// from what its receiver does with it, not from its completion; the bytes may be read as late as
// that. Invariants (checked by tests/schedule_test.cc for every generator):
//   - the puts with an arrival number are just as many as its one wait waits for
//   - no two puts into one rank's inbox overlap
//   - when a rank has done all its steps, every other rank has at least begun its own. With two
//     inboxes in turn (comm/collectives.h) that is enough to write into an inbox without asking.
//   - bytes that are still needed are not overwritten: a put into a peer's data follows, by way of
//     arrivals, the peer's last use of them, and so does a sum after a put of the same bytes
// Order of summation: fixed by (algorithm, size, piece), in `direct` and `flat` always rank 0 to
// N-1.
// Reference: costs of the algorithms in docs/collectives.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/transport.h"

namespace kinet {

// Where bytes are. kPeerData: the data of another rank of this machine, read where it lies.
enum class Place : uint8_t { kData, kInbox, kPeerData };

struct Slice {
  Place place = Place::kData;
  uint64_t offset = 0;  // bytes; in the inbox from the segment's own part of it
  Rank rank = -1;       // whose, of kPeerData
};

struct Step {
  enum class Kind : uint8_t { kPut, kWait, kSum } kind = Kind::kWait;
  bool last_to_peer = false;  // no later put of this schedule goes to that peer
  Rank peer = -1;             // kPut: to whom; kWait: from whom
  uint32_t arrival = 0;       // at its receiver the number belongs to one wait
  uint32_t times = 1;         // kWait: puts with that number
  Slice from, to;
  uint64_t bytes = 0;
  uint32_t first_source = 0, source_count = 0;  // kSum: in Schedule::sources
};

struct Schedule {
  std::vector<Step> steps;
  std::vector<Slice> sources;

  void clear();
  void put(Rank to, Slice from, Slice into, uint64_t bytes, uint32_t arrival);
  void notify(Rank to, uint32_t arrival);  // a put of no bytes
  void wait(Rank from, uint32_t arrival, uint32_t times = 1);
  // The sources of a sum are those added since the last one.
  void source(const Slice& slice) { sources.push_back(slice); }
  void sum(Slice into, uint64_t bytes);
  void mark_last_puts(int size);  // sets last_to_peer

 private:
  uint32_t summed_ = 0;    // sources that belong to earlier sums
  std::vector<bool> met_;  // of mark_last_puts()
};

struct Range {
  uint64_t offset = 0, bytes = 0;  // within the data
};

// What a generator has to know. `pieces` by rank for direct, ring and gather; one for flat and the
// trees; halving_pieces(size) neighbours for halving-doubling.
struct Segment {
  Rank rank = 0;
  int size = 1;
  Rank root = 0;
  uint64_t slot = 0;  // bytes between two slots of the inbox, at least the longest piece
  uint64_t step = 0;  // direct_all_reduce: most bytes of a sum and a put
  std::vector<Range> pieces;
  std::vector<bool> reads;    // this rank sees that peer's data
  std::vector<bool> read_by;  // that peer sees this rank's data
};

// --- all-reduce. Everybody sends all to all, and sums for himself: one latency, for few bytes.
void flat_all_reduce(const Segment& s, Schedule& out);
// Every piece goes to its owner, who sums and sends the sum to all, step by step. Owners of this
// machine read the contributions where they lie; if all do, pieces may be longer than slots.
void direct_all_reduce(const Segment& s, Schedule& out);
void ring_all_reduce(const Segment& s, Schedule& out);
void halving_doubling_all_reduce(const Segment& s, Schedule& out);

// --- parts of it: rank r ends with the sum of piece r, or with everybody's piece.
void direct_reduce_scatter(const Segment& s, Schedule& out);
void ring_reduce_scatter(const Segment& s, Schedule& out);
void direct_all_gather(const Segment& s, Schedule& out);
void ring_all_gather(const Segment& s, Schedule& out);

// --- binomial trees, and a barrier in ceil(log2 N) rounds.
void tree_broadcast(const Segment& s, Schedule& out);
void tree_reduce(const Segment& s, Schedule& out);
void barrier(const Segment& s, Schedule& out);

// The largest power of two that is not above `size`.
int halving_pieces(int size);

// Arrival numbers: a phase and a number below max(size, 32) within it.
inline constexpr uint32_t kPhases = 4;
uint32_t arrival_number(const Segment& s, uint32_t phase, uint32_t number);
uint32_t arrival_limit(int size);  // all numbers are below

// The share of one of `parts` in `bytes`: equal to within a cache line, whose borders it keeps.
Range share_of(uint64_t bytes, int part, int parts);

}  // namespace kinet
