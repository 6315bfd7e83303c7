// Events of the virtual network: how a packet goes from a sender to an inbox.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "comm/transports/sim.h"
#include "comm/transports/sim_endpoint.h"
#include "src/base/check.h"
#include "src/base/rng.h"

namespace kinet {

SimWorld::SimWorld(int size, const SimOptions& options)
    : size_(size), options_(options), model_(options.link, size) {
  KINET_CHECK(size >= 1, "a virtual network of {} ranks", size);
  for (const SimFault& f : options_.faults) {
    KINET_CHECK(f.rank >= 0 && f.rank < size && f.peer >= 0 && f.peer < size,
                "sim: a fault names rank {} and peer {}; there are ranks 0 to {}", f.rank, f.peer,
                size - 1);
    events_.push(f.at, [this, f] { fault(f); });
  }
}

SimWorld::~SimWorld() = default;

double SimWorld::now() const {
  const Lock lock(mutex_);
  return now_;
}

SimCounters SimWorld::counters() const {
  const Lock lock(mutex_);
  return counters_;
}

bool SimWorld::step(double until) {
  const Lock lock(mutex_);
  return next_event(until);
}

void SimWorld::call_at(double time, std::function<void()> call) {
  const Lock lock(mutex_);
  events_.push(std::max(time, now_), std::move(call));
}

// Everybody's wishes of this instant come first, by rank: that makes their order independent of
// which thread ran when.
bool SimWorld::next_event(double until) {
  for (const Rank r : std::exchange(wishing_, {})) {
    for (const auto& call : std::exchange(endpoints_.at(r)->outbox, {})) call();
  }
  if (events_.empty() || events_.next_time() > until) {
    if (std::isfinite(until)) now_ = std::max(now_, until);
    return false;
  }
  now_ = std::max(now_, events_.next_time());
  events_.pop()();
  return true;
}

std::shared_ptr<SimEndpoint> SimWorld::find(Rank rank, uint32_t incarnation) const {
  const auto it = endpoints_.find(rank);
  if (it == endpoints_.end() || it->second->incarnation != incarnation) return nullptr;
  return it->second;
}

// ---- one packet ---------------------------------------------------------------------------------

SimWorld::Draws SimWorld::draw(const SimPacket& p) const {
  Draws out;
  const SimOptions& o = options_;
  if (o.loss <= 0 && o.jitter <= 0 && o.reorder <= 0 && o.duplicate <= 0) return out;
  const uint64_t link = (static_cast<uint64_t>(p.from) << 32) | static_cast<uint32_t>(p.to);
  Rng rng(o.seed, RngPurpose::kNetwork, link, p.number, static_cast<uint64_t>(p.attempt));
  out.lost = rng.uniform() < o.loss;
  out.delay = o.jitter * rng.uniform();
  if (rng.uniform() < o.reorder) out.delay += o.reorder_delay;
  out.twice = rng.uniform() < o.duplicate;
  return out;
}

void SimWorld::launch(const Packet& packet) {
  SimPacket& p = *packet;
  const auto sender = find(p.from, p.from_incarnation);
  if (p.cancelled || (sender && sender->killed)) return;
  ++counters_.transmissions;
  p.left = model_.leave(p.from, p.to, p.bytes, now_);
  trace(p.attempt == 1 ? "send" : "again", p.from, p.to, &p);
  const Wire& wire = model_.wire(p.from, p.to);
  const Draws d = draw(p);
  const double first = p.left + wire.latency + d.delay;
  if (d.lost) {
    events_.push(first, [this, packet] {
      ++counters_.lost;
      trace("lost", packet->from, packet->to, packet.get());
    });
    events_.push(p.left + wire.cost(p.bytes) + options_.retransmit_timeout,
                 [this, packet] { retry(packet); });
    return;
  }
  events_.push(first, [this, packet] { first_byte(packet); });
  if (d.twice) events_.push(first + wire.latency, [this, packet] { first_byte(packet); });
}

void SimWorld::retry(const Packet& packet) {
  SimPacket& p = *packet;
  const auto sender = find(p.from, p.from_incarnation);
  const SimLink* link = sender ? sender->link(p.to, p.to_incarnation) : nullptr;
  // After a disconnect() the last messages still have to get through; after a loss nothing does.
  const bool over = link != nullptr && link->broken && !link->disconnected;
  if (p.cancelled || over || (sender && sender->killed)) return;
  if (p.attempt > options_.retries) {
    const std::string why =
        fmt::format("{} transmissions of one packet were lost in a row", p.attempt);
    close_link(p.from, p.from_incarnation, p.to, p.to_incarnation, why);
    after(model_.wire(p.from, p.to).latency, [this, packet] {
      close_link(packet->to, packet->to_incarnation, packet->from, packet->from_incarnation,
                 "it gave the link up");
    });
    return;
  }
  ++p.attempt;
  if (sender) ++sender->retransmissions;
  launch(packet);
}

void SimWorld::first_byte(const Packet& packet) {
  const SimPacket& p = *packet;
  const auto sender = find(p.from, p.from_incarnation);
  // What was still waiting for the sender's link when its process ended never left.
  if (p.cancelled || (sender && sender->killed && sender->killed_at <= p.left)) return;
  if (is_cut(p.from, p.to)) {
    ++counters_.lost;
    trace("lost", p.from, p.to, &p, "the link is cut");
    after(model_.wire(p.from, p.to).cost(p.bytes) + options_.retransmit_timeout,
          [this, packet] { retry(packet); });
    return;
  }
  events_.push(model_.arrive(p.from, p.to, p.bytes, now_), [this, packet] { arrive(packet); });
}

void SimWorld::arrive(const Packet& packet) {
  const SimPacket& p = *packet;
  const auto to = find(p.to, p.to_incarnation);
  SimLink* link = to ? to->link(p.from, p.from_incarnation) : nullptr;
  if (p.cancelled || link == nullptr || link->ended() || to->closed || to->killed) {
    ++counters_.undeliverable;
    trace("drop", p.from, p.to, &p, "nobody takes it");
    return;
  }
  if (!link->seen.add(p.number)) {
    ++counters_.duplicates;
    trace("twice", p.from, p.to, &p);
    return;
  }
  ++counters_.delivered;
  trace("recv", p.from, p.to, &p);
  if (p.kind == SimPacket::Kind::kPut) return deliver(*to, packet);
  if (p.stream != link->expected) ++counters_.out_of_order;
  link->held[p.stream] = packet;
  while (!link->ended() && !link->held.empty() && link->held.begin()->first == link->expected) {
    const Packet next = link->held.begin()->second;
    link->held.erase(link->held.begin());
    ++link->expected;
    deliver(*to, next);
  }
}

void SimWorld::deliver(SimEndpoint& to, const Packet& packet) {
  const SimPacket& p = *packet;
  if (p.kind == SimPacket::Kind::kGone) {
    return close_link(p.to, p.to_incarnation, p.from, p.from_incarnation, "it closed the link");
  }
  if (p.kind == SimPacket::Kind::kMessage) {
    to.inbox.push_back({SimEvent::Kind::kMessage, p.from, p.from_incarnation, 0, packet, ""});
    return;
  }
  const auto region = to.regions.find(p.key);
  if (p.bytes > 0 && (region == to.regions.end() || p.offset > region->second.bytes ||
                      p.bytes > region->second.bytes - p.offset)) {
    close_link(p.to, p.to_incarnation, p.from, p.from_incarnation,
               "it put outside of the memory offered to it");
    after(model_.wire(p.from, p.to).latency, [this, packet] {
      close_link(packet->from, packet->from_incarnation, packet->to, packet->to_incarnation,
                 "it refused a put outside of its memory");
    });
    return;
  }
  if (p.bytes > 0) std::memcpy(region->second.data + p.offset, p.source, p.bytes);
  to.inbox.push_back({SimEvent::Kind::kPutArrived, p.from, p.from_incarnation, 0, packet, ""});
  after(model_.wire(p.to, p.from).latency, [this, packet] { complete_put(packet); });
}

// The acknowledgement is back at the sender. Completions are told in the order of posting.
void SimWorld::complete_put(const Packet& packet) {
  const auto sender = find(packet->from, packet->from_incarnation);
  SimLink* link = sender ? sender->link(packet->to, packet->to_incarnation) : nullptr;
  if (link == nullptr || link->ended()) return;
  link->acknowledged.add(packet->stream);
  link->puts.erase(packet->stream);
  const uint64_t done = link->acknowledged.without_gap() - link->puts_told;
  if (done == 0) return;
  link->puts_told += done;
  sender->inbox.push_back(
      {SimEvent::Kind::kPutsCompleted, packet->to, packet->to_incarnation, done, nullptr, ""});
}

// Leaves the news in the inbox, once; what has arrived before it is still raised.
void SimWorld::close_link(Rank rank, uint32_t incarnation, Rank peer, uint32_t peer_incarnation,
                          const std::string& why) {
  const auto endpoint = find(rank, incarnation);
  SimLink* link = endpoint ? endpoint->link(peer, peer_incarnation) : nullptr;
  if (link == nullptr || link->broken || endpoint->killed || endpoint->closed) return;
  link->broken = true;
  link->cancel_puts();
  if (link->disconnected) return;
  trace("gone", rank, peer, nullptr, why);
  endpoint->inbox.push_back({SimEvent::Kind::kLost, peer, peer_incarnation, 0, nullptr, why});
}

}  // namespace kinet
