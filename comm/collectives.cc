#include "comm/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/collectives_impl.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr size_t kOperationsUnderWay = 1024;
constexpr uint64_t kSmallestPiece = 4096;  // bytes: halving needs room for rounding

constexpr std::array<const char*, 4> kAlgorithmNames{"auto", "direct", "ring", "halving_doubling"};

}  // namespace

Algorithm algorithm_of(const std::string& name) {
  for (size_t i = 0; i < kAlgorithmNames.size(); ++i) {
    if (name == kAlgorithmNames[i]) return static_cast<Algorithm>(i);
  }
  fail("there is no collective algorithm '{}'\nhint: auto, direct, ring, halving_doubling", name);
}

const char* name_of(Algorithm algorithm) { return kAlgorithmNames[static_cast<size_t>(algorithm)]; }

const char* name_of(Operation::Kind kind) {
  static constexpr std::array<const char*, 6> kNames{"all_reduce", "reduce_scatter", "all_gather",
                                                     "reduce",     "broadcast",      "barrier"};
  return kNames[static_cast<size_t>(kind)];
}

// ---- set-up
// -----------------------------------------------------------------------------------------

Collectives::Impl::Impl(Communicator& the_comm, Region& the_data,
                        const CollectiveOptions& the_options)
    : comm(the_comm),
      data(the_data),
      options(the_options),
      rank(comm.rank()),
      size(comm.size()),
      kind(static_cast<uint8_t>(kCollectiveKind + the_options.id)),
      peers(size),
      lanes(the_options.depth),
      operations(kOperationsUnderWay) {
  const uint64_t tags = 2 * options.depth * static_cast<uint64_t>(arrival_limit(size));
  KINET_CHECK(tags <= kMaxTag, "collectives: depth {} is too much for {} ranks", options.depth,
              size);
  for (Lane& lane : lanes) {
    lane.segment.rank = rank;
    lane.segment.size = size;
    lane.segment.slot = lane.segment.step = options.piece;
    lane.segment.reads.assign(size, false);
    lane.segment.read_by.assign(size, false);
    lane.segment.pieces.reserve(size);
    lane.schedule.steps.reserve(64 * size);  // the longest: 32 pieces to everybody
    lane.schedule.sources.reserve(32 * size);
    for (auto& arrived : lane.arrived) arrived.resize(arrival_limit(size));
  }
  for (Underway& op : operations) op.last_put.assign(size, 0);
  sum_sources.reserve(size);
  if (size > 1) {
    inbox = comm.allocate(2 * options.depth * options.piece * size, "collectives");
  }
  comm.locked([this] {
    lost_number =
        comm.on_peer_lost([this](Rank peer, const std::string& why) { on_peer_lost(peer, why); });
    pump_number = comm.add_pump([this] { pump(); });
    comm.on_put(kind, [this](Rank from, uint32_t tag, uint64_t) { on_put(from, tag); });
    comm.on_message(
        kind, [this](Rank from, std::span<const std::byte> payload) { on_message(from, payload); });
  });
}

Collectives::Impl::~Impl() {
  comm.locked([this] {
    comm.on_put(kind, nullptr);
    comm.on_message(kind, nullptr);
    comm.remove(lost_number);
    comm.remove(pump_number);
  });
}

// Three rounds: where everybody's memory is, who sees whose, and whether all see all.
void Collectives::Impl::exchange() {
  const auto all = [this](const auto& has) {
    comm.wait_until(
        [&] {
          for (Rank r = 0; r < size; ++r) {
            if (r != rank && !has(peers[r]) && !failed) return false;
          }
          return true;
        },
        options.timeout, "the set-up of collectives");
    if (failed) fail_runtime("{}, in the set-up of collectives", failure);
  };
  for (Rank r = 0; r < size; ++r) {
    if (r == rank) continue;
    CollectiveHello hello;
    hello.data = comm.key_for(data, r);
    hello.inbox = comm.key_for(*inbox, r);
    hello.piece = options.piece;
    hello.flat_limit = options.flat_limit;
    hello.depth = options.depth;
    hello.algorithm = static_cast<int32_t>(options.algorithm);
    comm.send(r, kind, std::as_bytes(std::span(&hello, 1)));
  }
  all([](const CollectivePeer& p) { return p.hello.has_value(); });
  for (Rank r = 0; r < size; ++r) {
    if (r == rank) continue;
    compare(r);
    if (options.read_peers) peers[r].data = comm.peer_memory(r, peers[r].hello->data);
    const auto reads = static_cast<std::byte>(peers[r].data != nullptr ? 1 : 0);
    comm.send(r, kind, std::span(&reads, 1));
  }
  all([](const CollectivePeer& p) { return p.reads_us.has_value(); });
  all_mapped = true;
  for (Rank r = 0; r < size; ++r) {
    all_mapped &= r == rank || (peers[r].data != nullptr && *peers[r].reads_us);
  }
  const auto sees = static_cast<std::byte>(all_mapped ? 1 : 0);
  for (Rank r = 0; r < size; ++r) {
    if (r != rank) comm.send(r, kind, std::span(&sees, 1));
  }
  all([](const CollectivePeer& p) { return p.all_see_all.has_value(); });
  for (const CollectivePeer& p : peers) all_mapped &= p.all_see_all.value_or(true);
  comm.locked([this] {
    comm.on_message(kind, nullptr);  // what comes from now on is of the next object with this id
    for (Lane& lane : lanes) {
      for (Rank r = 0; r < size; ++r) {
        lane.segment.reads[r] = peers[r].data != nullptr;
        lane.segment.read_by[r] = peers[r].reads_us.value_or(false);
      }
    }
  });
}

void Collectives::Impl::on_message(Rank from, std::span<const std::byte> payload) {
  CollectivePeer& peer = peers[from];
  if (payload.size() == sizeof(CollectiveHello) && !peer.hello) {
    CollectiveHello hello;
    std::memcpy(&hello, payload.data(), sizeof(hello));
    peer.hello = hello;
  } else if (payload.size() == 1 && peer.hello && !peer.reads_us) {
    peer.reads_us = payload[0] != std::byte{0};
  } else if (payload.size() == 1 && peer.reads_us && !peer.all_see_all) {
    peer.all_see_all = payload[0] != std::byte{0};
  } else {
    fail_all(fmt::format("{} sent a set-up message that does not fit", comm.name(from)));
  }
}

void Collectives::Impl::compare(Rank peer) const {
  const CollectiveHello& there = *peers[peer].hello;
  const auto same = [&](const char* what, uint64_t a, uint64_t b) {
    KINET_CHECK(a == b, "collectives: {} is {} here (rank {}) and {} at rank {}", what, a, rank, b,
                peer);
  };
  same("the size of the data in bytes", data.bytes(), there.data.bytes);
  same("piece", options.piece, there.piece);
  same("flat_limit", options.flat_limit, there.flat_limit);
  same("depth", options.depth, there.depth);
  same("algorithm", static_cast<uint64_t>(options.algorithm), there.algorithm);
}

// The barrier: when it is over, all ranks are through with the messages of the set-up.
Collectives::Collectives(Communicator& comm, Region& data, const CollectiveOptions& options) {
  KINET_CHECK(options.depth >= 1 && options.depth <= 64, "collectives: depth is {}, not 1 to 64",
              options.depth);
  KINET_CHECK(options.piece >= kSmallestPiece && options.piece % 64 == 0,
              "collectives: piece is {} bytes; at least {}, in steps of 64", options.piece,
              kSmallestPiece);
  KINET_CHECK(options.id >= 0 && options.id < 8, "collectives: id is {}, not 0 to 7", options.id);
  impl_ = std::make_unique<Impl>(comm, data, options);
  if (comm.size() == 1) return;
  impl_->exchange();
  wait(barrier(), options.timeout, "set-up");
}

Collectives::~Collectives() = default;

// ---- operations
// -------------------------------------------------------------------------------------

Ticket Collectives::Impl::start(const Operation& wanted) {
  const uint64_t there = data.bytes();
  KINET_CHECK(wanted.offset <= there && wanted.bytes <= there - wanted.offset,
              "{}: {} bytes at offset {} leave the data of {} bytes", name_of(wanted.kind),
              wanted.bytes, wanted.offset, there);
  KINET_CHECK(wanted.root >= 0 && wanted.root < size, "{}: root {} of {} ranks",
              name_of(wanted.kind), wanted.root, size);
  const auto begin = [this, &wanted] {
    KINET_CHECK(started - finished < operations.size(),
                "collectives: {} operations are under way, which is the limit", operations.size());
    Underway& next = underway(started + 1);
    next.operation = wanted;
    plan(next.operation);
    std::fill(next.last_put.begin(), next.last_put.end(), 0);
    ++started;
    pump();
  };
  comm.locked(begin);
  return started;
}

Ticket Collectives::all_reduce(uint64_t offset, uint64_t count) {
  Operation op;
  op.kind = Operation::Kind::kAllReduce;
  op.algorithm = impl_->options.algorithm;
  op.offset = offset * sizeof(float);
  op.bytes = count * sizeof(float);
  return impl_->start(op);
}

Ticket Collectives::reduce_scatter(uint64_t offset, uint64_t count) {
  Operation op;
  op.kind = Operation::Kind::kReduceScatter;
  op.algorithm = impl_->options.algorithm;
  op.offset = offset * sizeof(float);
  op.bytes = count * sizeof(float);
  return impl_->start(op);
}

Ticket Collectives::all_gather(uint64_t offset, uint64_t count) {
  Operation op;
  op.kind = Operation::Kind::kAllGather;
  op.algorithm = impl_->options.algorithm;
  op.offset = offset * sizeof(float);
  op.bytes = count * sizeof(float);
  return impl_->start(op);
}

Ticket Collectives::reduce(uint64_t offset, uint64_t count, Rank root) {
  Operation op;
  op.kind = Operation::Kind::kReduce;
  op.offset = offset * sizeof(float);
  op.bytes = count * sizeof(float);
  op.root = root;
  return impl_->start(op);
}

Ticket Collectives::broadcast(uint64_t offset_bytes, uint64_t bytes, Rank root) {
  Operation op;
  op.kind = Operation::Kind::kBroadcast;
  op.offset = offset_bytes;
  op.bytes = bytes;
  op.root = root;
  return impl_->start(op);
}

Ticket Collectives::barrier() { return impl_->start(Operation{}); }

Collectives::Share Collectives::share(uint64_t count, Rank rank) const {
  const Range r = share_of(count * sizeof(float), rank, impl_->size);
  return {r.offset / sizeof(float), r.bytes / sizeof(float)};
}

// ---- waiting and losses
// -----------------------------------------------------------------------------

bool Collectives::done(Ticket ticket) const {
  if (impl_->finished >= ticket) return true;
  if (impl_->failed) impl_->throw_failure(ticket);
  return false;
}

// A short name needs no memory, so that a plain wait takes none.
void Collectives::wait(Ticket ticket, double timeout, const std::string& what) {
  if (done(ticket)) return;
  Impl* impl = impl_.get();
  std::string text = name_of(impl->operation(ticket).kind);
  if (!what.empty()) text += fmt::format(" {} ({})", ticket, what);
  impl->comm.wait_until([impl, ticket] { return impl->finished >= ticket || impl->failed; },
                        timeout, text);
  done(ticket);
}

uint64_t Collectives::started() const { return impl_->started; }
uint64_t Collectives::finished() const { return impl_->finished; }

// What was complete but for the report that puts have left is done all the same.
void Collectives::Impl::on_peer_lost(Rank peer, const std::string& why) {
  retire();
  if (comm.state(peer) == PeerState::kLeft) {
    peers[peer].why_left = why;
    pump();
  } else {
    fail_all(fmt::format("{} is lost: {}", comm.name(peer), why));
  }
}

// The first cause is the one that is told.
void Collectives::Impl::fail_all(const std::string& why) {
  if (failed) return;
  failure = why;
  failed = true;
}

void Collectives::Impl::throw_failure(Ticket ticket) const {
  fail_runtime("{}, in {} {}", failure,
               name_of(operations[ticket % operations.size()].operation.kind), ticket);
}

}  // namespace kinet
