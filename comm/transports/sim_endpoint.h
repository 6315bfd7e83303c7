// One rank's place in a SimWorld: its links, what has arrived for it, what it wants to send.
// Everything here is touched under the world's lock only.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/transports/sim.h"

namespace kinet {

// Numbers 0, 1, 2 ... that came in any order; finds doubles, and how many came without a gap.
class NumberSet {
 public:
  bool add(uint64_t number) {  // false: it is known
    if (number < floor_ || !beyond_.insert(number).second) return false;
    while (!beyond_.empty() && *beyond_.begin() == floor_) {
      beyond_.erase(beyond_.begin());
      ++floor_;
    }
    return true;
  }
  uint64_t without_gap() const { return floor_; }

 private:
  uint64_t floor_ = 0;
  std::set<uint64_t> beyond_;
};

inline constexpr uint64_t kSimPuts = 1024;     // to one peer, from posting to acknowledgement
inline constexpr uint64_t kSimMessages = 256;  // to one peer, until it has polled them

struct SimPacket {
  enum class Kind { kMessage, kPut, kGone } kind = Kind::kMessage;
  Rank from = 0, to = 0;
  uint32_t from_incarnation = 0, to_incarnation = 0;
  uint64_t number = 0;  // on its link, in this direction
  uint64_t stream = 0;  // of puts: the how many-eth put; else: the how many-eth message
  uint64_t bytes = 0;
  int attempt = 1;
  double left = 0;         // when the first byte of the last attempt left
  bool cancelled = false;  // its source may be gone
  std::vector<std::byte> message;
  const std::byte* source = nullptr;  // of a put; read when it arrives
  uint64_t key = 0, offset = 0;
  uint32_t notify = 0;
};

struct SimEvent {
  // kRoom: a message can be sent again; raises nothing, but wakes whoever had been told kBusy.
  enum class Kind { kConnected, kMessage, kPutArrived, kPutsCompleted, kRoom, kLost };
  Kind kind = Kind::kMessage;
  Rank peer = 0;
  uint32_t incarnation = 0;
  uint64_t count = 0;  // puts completed
  std::shared_ptr<SimPacket> packet;
  std::string why;
};

struct SimLink {
  uint32_t incarnation = 0;   // of the peer
  bool connected = false;     // both sides have called connect()
  bool up = false;            // ... and this side has been told
  bool disconnected = false;  // by this side
  bool broken = false;        // lost; the event is in the inbox or has been raised
  // Out
  uint64_t next_number = 0, next_message = 0, next_put = 0;
  uint64_t messages_under_way = 0;
  uint64_t puts_told = 0;                               // completions left in the inbox
  NumberSet acknowledged;                               // puts
  std::map<uint64_t, std::shared_ptr<SimPacket>> puts;  // whose sources are in use
  // In
  NumberSet seen;
  uint64_t expected = 0;                                // next message of the stream
  std::map<uint64_t, std::shared_ptr<SimPacket>> held;  // came before their turn

  bool ended() const { return disconnected || broken; }
  uint64_t puts_under_way() const { return next_put - acknowledged.without_gap(); }
  void cancel_puts() {
    for (auto& [number, packet] : puts) packet->cancelled = true;
    puts.clear();
  }
};

class SimEndpoint {
 public:
  SimEndpoint(SimWorld* world, Rank rank, uint32_t incarnation)
      : world(world), rank(rank), incarnation(incarnation) {}

  // For transport sim, which takes the lock for each group of calls.
  SimWorld::Lock lock() const { return SimWorld::Lock(world->mutex_); }
  static void enter(const std::shared_ptr<SimEndpoint>& self) { self->world->enter(self); }
  void connect(Rank peer, uint32_t peer_incarnation);
  void disconnect(Rank peer);
  void close();
  void wish(std::function<void()> call);
  void post(const std::shared_ptr<SimPacket>& packet);  // to be launched before the clock moves
  void give_credit(const std::shared_ptr<SimPacket>& packet);  // a message has been raised
  bool wait(double until, double patience, SimWorld::Lock& lock) {
    return world->wait(*this, until, patience, lock);
  }
  double now() const { return world->now_; }
  bool polled() const { return !world->options_.threads; }
  bool step(double until) { return world->next_event(until); }

  SimLink* link(Rank peer) {
    const auto it = links.find(peer);
    return it == links.end() ? nullptr : &it->second;
  }
  SimLink* link(Rank peer, uint32_t peer_incarnation) {  // the same incarnation, or null
    SimLink* found = link(peer);
    return found != nullptr && found->incarnation == peer_incarnation ? found : nullptr;
  }

  SimWorld* const world;  // which owns this endpoint; the transport keeps it alive
  const Rank rank;
  const uint32_t incarnation;
  bool closed = false, killed = false, stopped = false;
  double killed_at = 0;
  std::map<Rank, SimLink> links;
  std::deque<SimEvent> inbox;
  std::vector<std::function<void()>> outbox;  // by wish(); run before the clock moves
  std::map<uint64_t, MemoryBlock> regions;
  uint64_t last_key = 0;
  uint64_t retransmissions = 0;

  // Ranks as threads.
  bool waiting = false;
  double limit = 0;  // of the wait
  std::condition_variable_any woken;
};

}  // namespace kinet
