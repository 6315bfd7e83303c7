// The state of a Collectives object, shared by
//   collectives.cc        the public face and the set-up
//   collectives_run.cc    lanes and steps
//   collectives_cut.cc    from an operation to segments and their schedules
// Invariant: everything is touched under the communicator's lock only, but for the atomics.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <vector>

#include "comm/collectives.h"

namespace kinet {

struct Operation {
  enum class Kind { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast, kBarrier };
  enum class Cut {
    kWhole,   // one segment: flat, barrier
    kShares,  // a piece of each rank's share
    kMapped,  // many pieces of each share, where all ranks see each other's data
    kHalves,  // neighbours for halving-doubling
    kPieces,  // one piece: trees
  };
  Kind kind = Kind::kBarrier;
  Algorithm algorithm = Algorithm::kDirect;
  Cut cut = Cut::kWhole;
  Rank root = 0;
  uint64_t offset = 0, bytes = 0;
  uint64_t segments = 0, begun = 0, ended = 0;
};

// An operation under way, and for each peer the number of the last put that belongs to it.
struct Underway {
  Operation operation;
  std::vector<uint64_t> last_put;
};

const char* name_of(Operation::Kind kind);

struct Lane {
  bool busy = false;
  uint64_t turn = 0;  // how many segments it has begun; its parity says which inbox is in use
  Ticket ticket = 0;
  bool flush = false;  // the operation ends soon: report completions
  size_t next = 0;     // step
  Segment segment;
  Schedule schedule;
  struct Arrived {
    Rank from = -1;
    uint32_t times = 0;
  };
  std::array<std::vector<Arrived>, 2> arrived;  // by parity and arrival number
};

// What a rank tells all others at set-up.
struct CollectiveHello {
  RemoteRegion data, inbox;
  uint64_t piece = 0, flat_limit = 0;
  int32_t depth = 0, algorithm = 0;
};

struct CollectivePeer {
  std::optional<CollectiveHello> hello;
  std::optional<bool> reads_us;     // it sees our data
  std::optional<bool> all_see_all;  // as far as it knows
  const std::byte* data = nullptr;  // its data as we see it
  std::string why_left;
};

struct Collectives::Impl {
  Impl(Communicator& the_comm, Region& the_data, const CollectiveOptions& the_options);
  ~Impl();

  // --- collectives.cc
  void exchange();
  void on_message(Rank from, std::span<const std::byte> payload);
  void compare(Rank peer) const;
  template <class T>
  void tell_all(const T& value);
  Ticket start(const Operation& operation);
  void fail_all(const std::string& why);
  void fail_for_one_that_left(Rank peer);
  void on_peer_lost(Rank peer, const std::string& why);
  [[noreturn]] void throw_failure(Ticket ticket) const;

  // --- collectives_cut.cc
  void plan(Operation& operation) const;
  void fill(const Operation& operation, uint64_t index, Segment& segment) const;
  static void generate(const Operation& operation, const Segment& segment, Schedule& out);
  uint64_t halves_bytes() const;

  // --- collectives_run.cc
  void on_put(Rank from, uint32_t tag);
  void pump();
  bool begin_segments();
  void begin(Lane& lane, Operation& operation, Ticket ticket);
  bool run(Lane& lane, uint64_t lane_number);
  bool step(Lane& lane, uint64_t lane_number, const Step& step);
  bool put(const Lane& lane, uint64_t lane_number, const Step& step);
  void sum(const Lane& lane, uint64_t lane_number, const Step& step);
  bool take_arrival(Lane& lane, const Step& step);
  void retire();
  bool puts_have_left(const Underway& op) const;
  uint64_t inbox_offset(const Lane& lane, uint64_t lane_number) const;

  Underway& underway(Ticket ticket) { return operations[ticket % operations.size()]; }
  Operation& operation(Ticket ticket) { return underway(ticket).operation; }

  Communicator& comm;
  Region& data;
  const CollectiveOptions options;
  const Rank rank;
  const int size;
  const uint8_t kind;  // of messages and puts
  std::unique_ptr<Region> inbox;
  std::vector<CollectivePeer> peers;
  std::vector<Lane> lanes;
  std::vector<Underway> operations;  // a ring, by ticket
  std::vector<const float*> sum_sources;
  bool all_mapped = false;      // every rank sees every other's data
  Ticket beginning = 1;         // the first operation with segments to begin
  uint64_t segments_begun = 0;  // of all operations: number modulo depth is the lane
  int lost_number = 0, pump_number = 0;
  std::string failure;
  std::atomic<Ticket> started{0}, finished{0};
  std::atomic<bool> failed{false};
};

}  // namespace kinet
