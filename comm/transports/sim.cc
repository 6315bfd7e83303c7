// sim: ranks that share a virtual clock and a modelled network (comm/transports/sim.h).
//
//   put   the bytes are copied into the peer's memory at the moment they arrive there
//   send  copied at once
//   poll  raises what has arrived by now(); time passes in advance() alone
// A rank that was killed learns it from its next poll(), which throws: its process has ended.
// Thread safety: that of SimWorld; a Sim belongs to its rank's thread.
#include "comm/transports/sim.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "comm/transports/sim_endpoint.h"
#include "src/base/check.h"

namespace kinet {
namespace {

class SimRegion : public MemoryRegion {
 public:
  SimRegion(const MemoryBlock& block, std::shared_ptr<SimEndpoint> endpoint)
      : MemoryRegion(block), endpoint_(std::move(endpoint)) {
    const auto lock = endpoint_->lock();
    key_ = ++endpoint_->last_key;
    endpoint_->regions[key_] = block;
  }
  ~SimRegion() override {
    const auto lock = endpoint_->lock();
    endpoint_->regions.erase(key_);
  }
  RemoteRegion remote() const override { return {0, key_, bytes()}; }

 private:
  std::shared_ptr<SimEndpoint> endpoint_;
  uint64_t key_ = 0;
};

class Sim : public Transport {
 public:
  explicit Sim(const TransportConfig& config)
      : world_(config.runtime.sim), patience_(config.timeout) {
    KINET_CHECK(world_ != nullptr,
                "transport sim joins ranks of one process that share a virtual clock\nhint: kinet "
                "simulate makes one; for ranks that are processes: --transport auto");
    if (world_->patience() > 0) patience_ = world_->patience();
    self_ = std::make_shared<SimEndpoint>(world_.get(), config.rank, config.incarnation);
    SimEndpoint::enter(self_);
  }

  ~Sim() override {
    const auto lock = self_->lock();
    self_->close();
  }

  static TransportType type() {
    return {"sim",
            "virtual time over a modelled network (kinet simulate, tests)",
            Reach::kProcess,
            0,  // only when asked for
            &SimOptions::fields(),
            [](const Params&) {
              return TransportProbe{true, "works: modelled network, virtual time", {}, ""};
            },
            [](const TransportConfig& config) -> std::unique_ptr<Transport> {
              return std::make_unique<Sim>(config);
            }};
  }

  std::unique_ptr<MemoryRegion> register_memory(const MemoryBlock& block) override {
    ++counters_.registrations;
    return std::make_unique<SimRegion>(block, self_);
  }

  std::string offer(Rank) override { return fmt::format("{}", self_->rank); }

  void connect(Rank peer, uint32_t incarnation, const std::string& offer) override {
    KINET_CHECK(offer == fmt::format("{}", peer), "sim: rank {} offers '{}'", peer, offer);
    const auto lock = self_->lock();
    self_->connect(peer, incarnation);
  }

  void disconnect(Rank peer) override {
    const auto lock = self_->lock();
    self_->disconnect(peer);
  }

  Post send(Rank peer, std::span<const std::byte> message) override {
    KINET_DCHECK(message.size() <= kMaxMessage);
    const auto lock = self_->lock();
    SimLink* link = self_->link(peer);
    if (const Post post = postable(link); post != Post::kAccepted) return post;
    if (link->messages_under_way >= kSimMessages) return busy();
    const auto packet = packet_to(peer, *link, SimPacket::Kind::kMessage, message.size());
    packet->message.assign(message.begin(), message.end());
    packet->stream = link->next_message++;
    ++link->messages_under_way;
    ++counters_.messages_sent;
    self_->post(packet);
    return Post::kAccepted;
  }

  Post put(Rank peer, const Put& put) override {
    check_put(put);
    const auto lock = self_->lock();
    SimLink* link = self_->link(peer);
    if (const Post post = postable(link); post != Post::kAccepted) return post;
    if (link->puts_under_way() >= kSimPuts) return busy();
    const auto packet = packet_to(peer, *link, SimPacket::Kind::kPut, put.bytes);
    if (put.bytes > 0) packet->source = put.from->data() + put.from_offset;
    packet->key = put.to.key;
    packet->offset = put.to_offset;
    packet->notify = put.notify;
    packet->stream = link->next_put++;
    link->puts[packet->stream] = packet;
    ++counters_.puts;
    counters_.put_bytes += put.bytes;
    self_->post(packet);
    return Post::kAccepted;
  }

  int poll(EventSink& sink) override {
    std::deque<SimEvent> events;
    {
      const auto lock = self_->lock();
      if (self_->killed) {
        fail_runtime("rank {} was killed at {:.9g} s of virtual time", self_->rank,
                     self_->killed_at);
      }
      if (self_->stopped) return 0;
      events.swap(self_->inbox);
    }
    int count = 0;
    for (const SimEvent& event : events) {
      if (!admit(event)) continue;
      raise(event, sink);
      ++count;
    }
    return count;
  }

  bool advance(double until) override {
    auto lock = self_->lock();
    if (self_->killed) return true;  // poll() tells
    if (self_->polled()) {
      self_->step(until);
    } else {
      self_->wait(until, patience_, lock);
    }
    return true;
  }

  double now() const override { return self_->world->now(); }

  Capabilities capabilities() const override {
    Capabilities c;
    c.virtual_time = true;
    c.outstanding_puts = kSimPuts;
    return c;
  }
  TransportCounters counters() const override {
    const auto lock = self_->lock();
    TransportCounters out = counters_;
    out.retransmissions = self_->retransmissions;
    return out;
  }
  std::string describe(Rank, bool) const override { return self_->world->describe(); }

 private:
  Post busy() {
    ++counters_.busy;
    return Post::kBusy;
  }

  Post postable(const SimLink* link) {
    if (link == nullptr) return busy();
    if (link->ended() || self_->killed) return Post::kPeerLost;
    return link->up && !self_->stopped ? Post::kAccepted : busy();
  }

  std::shared_ptr<SimPacket> packet_to(Rank peer, SimLink& link, SimPacket::Kind kind,
                                       uint64_t bytes) const {
    auto packet = std::make_shared<SimPacket>();
    packet->kind = kind;
    packet->from = self_->rank;
    packet->from_incarnation = self_->incarnation;
    packet->to = peer;
    packet->to_incarnation = link.incarnation;
    packet->number = link.next_number++;
    packet->bytes = bytes;
    return packet;
  }

  // Whether its link still stands: a handler may have ended it a moment ago.
  bool admit(const SimEvent& event) {
    const auto lock = self_->lock();
    SimLink* link = self_->link(event.peer, event.incarnation);
    if (link == nullptr || link->disconnected) return false;
    switch (event.kind) {
      case SimEvent::Kind::kConnected:
        link->up = true;
        break;
      case SimEvent::Kind::kMessage:
        ++counters_.messages_received;
        self_->give_credit(event.packet);
        break;
      case SimEvent::Kind::kPutArrived:
        ++counters_.puts_arrived;
        break;
      default:
        break;
    }
    return true;
  }

  static void raise(const SimEvent& event, EventSink& sink) {
    switch (event.kind) {
      case SimEvent::Kind::kConnected:
        return sink.on_connected(event.peer);
      case SimEvent::Kind::kMessage:
        return sink.on_message(event.peer, event.packet->message);
      case SimEvent::Kind::kPutArrived:
        return sink.on_put_arrived(event.peer, event.packet->notify, event.packet->bytes);
      case SimEvent::Kind::kPutsCompleted:
        return sink.on_puts_completed(event.peer, event.count);
      case SimEvent::Kind::kRoom:
        return;
      case SimEvent::Kind::kLost:
        return sink.on_peer_lost(event.peer, event.why);
    }
  }

  std::shared_ptr<SimWorld> world_;  // destroyed last
  std::shared_ptr<SimEndpoint> self_;
  double patience_;  // real seconds
  TransportCounters counters_;
};

KINET_REGISTER_TRANSPORT(Sim::type());

}  // namespace
}  // namespace kinet
