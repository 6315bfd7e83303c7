// Collective operations over a Communicator: asynchronous, on puts alone.
//
//   Collectives sums(comm, *region, {});          // all ranks, at about the same time
//   const Ticket t = sums.all_reduce(0, count);   // all ranks, in the same order
//   ...compute...
//   sums.wait(t, 30);
//
// How: an operation is cut into segments, a segment runs a schedule (comm/schedule.h) in one of
//   `depth` lanes; lanes work side by side, so that sending, summing and waiting overlap. A lane
//   has two inboxes used in turn. When a rank is through with a segment, all have begun it, so all
//   are through with the lane's segment before: its inbox may be written again. No credits, no
//   acknowledgements.
// Nothing is registered and no memory is taken after the constructor.
// Done: the result is here, every put of this rank has left, and no peer will touch the memory of
//   this operation any more. So the data may change, and when all operations are done the object
//   may go.
// Order of summation: `direct` sums in the order of ranks, whatever the sizes, buckets and
//   transports: equal bits everywhere. The others are repeatable for a given size and piece.
// Losses: a peer that is lost or has left ends every operation under way and every later one with
//   an Error that names it. The object is of no use then; the other links live on. Keep it until
//   the survivors have told each other that they have stopped: their last puts may be on their way.
// Thread safety: as the Communicator's; operations are started by one thread. Steps run on whoever
//   polls. On inproc, memory that peers read must outlive their links (adopt() such memory).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/schedule.h"

namespace kinet {

enum class Algorithm {
  kAuto,             // by ranks and bytes, see docs/collectives.md; the same bits as kDirect up to
                     // kDirectRanks ranks
  kDirect,           // every piece to its owner and back
  kRing,             // around all ranks
  kHalvingDoubling,  // all_reduce only; other operations run as kDirect
};

inline constexpr int kDirectRanks = 16;  // kAuto takes kDirect up to here

// "auto", "direct", "ring", "halving_doubling"; throws Error for another name.
Algorithm algorithm_of(const std::string& name);
const char* name_of(Algorithm algorithm);

struct CollectiveOptions {
  Algorithm algorithm = Algorithm::kDirect;
  uint64_t piece = 128 << 10;  // bytes that one step puts and sums: a part of a core's own cache
  int depth = 4;               // segments under way, 1 to 64
  // At most this many bytes times (ranks - 1) go to everybody at once (flat), of kDirect and kAuto.
  uint64_t flat_limit = 32 << 10;
  bool read_peers = true;  // read the data of ranks of this machine where they lie, if possible
  int id = 0;              // 0 to 7: of the objects that live at the same time in one communicator
  double timeout = 30;     // seconds for the constructor
};

using Ticket = uint64_t;  // 1, 2, 3, ...

class Collectives {
 public:
  // `data`: as long on every rank. Throws Error when the ranks' options differ.
  Collectives(Communicator& comm, Region& data, const CollectiveOptions& options);
  ~Collectives();  // REQUIRES: operations are done, or the object has failed
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // Offsets and counts in floats of the data.
  Ticket all_reduce(uint64_t offset, uint64_t count);
  // Rank r ends with the sums of share(count, r); the rest is left in disorder.
  Ticket reduce_scatter(uint64_t offset, uint64_t count);
  // Everybody ends with everybody's share(count, r).
  Ticket all_gather(uint64_t offset, uint64_t count);
  // The root ends with the sums, the data of the others stays.
  Ticket reduce(uint64_t offset, uint64_t count, Rank root);
  Ticket broadcast(uint64_t offset_bytes, uint64_t bytes, Rank root);
  Ticket barrier();

  // Which part of `count` floats is a rank's: {first, how many}.
  struct Share {
    uint64_t first = 0, count = 0;
  };
  Share share(uint64_t count, Rank rank) const;

  // Does not wait, and does not poll. Throws the Error of a loss.
  bool done(Ticket ticket) const;
  // Throws the Error of a loss, or a time-out that says how every rank is. `what`: for that text.
  void wait(Ticket ticket, double timeout, const std::string& what = "");

  uint64_t started() const;   // tickets given out
  uint64_t finished() const;  // tickets 1 to this are done

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kinet
