// Who is there, and how ranks that are threads wait for virtual time.
//
// With options.threads the clock moves only when every rank of the run waits: the last one to wait
// lets one event happen; if that leaves news for somebody, that one wakes, acts, and waits again.
// So one rank at a time acts on an event, whatever the scheduler does.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "comm/transports/sim.h"
#include "comm/transports/sim_endpoint.h"
#include "src/base/check.h"

namespace kinet {
namespace {

using RealClock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(100);  // how often a waiting thread looks around

}  // namespace

// ---- links --------------------------------------------------------------------------------------

void SimWorld::enter(const std::shared_ptr<SimEndpoint>& endpoint) {
  const Lock lock(mutex_);
  KINET_CHECK(endpoint->rank >= 0 && endpoint->rank < size_,
              "rank {} enters a virtual network of {} ranks", endpoint->rank, size_);
  // A successor takes the place of a rank that is gone; the last words of that one still go out.
  std::shared_ptr<SimEndpoint>& place = endpoints_[endpoint->rank];
  if (place) endpoint->outbox.swap(place->outbox);
  place = endpoint;
}

// The link is there once both sides have asked for it; that takes no virtual time.
void SimEndpoint::connect(Rank peer, uint32_t peer_incarnation) {
  SimLink& mine = links[peer] = SimLink{};
  mine.incarnation = peer_incarnation;
  const auto other = world->find(peer, peer_incarnation);
  if (other == nullptr) {
    const auto it = world->endpoints_.find(peer);
    const bool gone = it != world->endpoints_.end() && it->second->incarnation > peer_incarnation;
    if (gone) world->close_link(rank, incarnation, peer, peer_incarnation, "its process is gone");
    return;
  }
  if (other->closed || other->killed) {
    world->close_link(rank, incarnation, peer, peer_incarnation, "its process ended");
    return;
  }
  SimLink* theirs = other->link(rank, incarnation);
  if (theirs == nullptr || theirs->ended()) return;
  mine.connected = theirs->connected = true;
  inbox.push_back({SimEvent::Kind::kConnected, peer, peer_incarnation, 0, nullptr, ""});
  other->inbox.push_back({SimEvent::Kind::kConnected, rank, incarnation, 0, nullptr, ""});
}

void SimEndpoint::disconnect(Rank peer) {
  SimLink* mine = link(peer);
  if (mine == nullptr || mine->disconnected) return;
  mine->disconnected = true;
  mine->cancel_puts();
  if (mine->broken || !mine->connected) return;
  auto gone = std::make_shared<SimPacket>();
  gone->kind = SimPacket::Kind::kGone;
  gone->from = rank;
  gone->from_incarnation = incarnation;
  gone->to = peer;
  gone->to_incarnation = mine->incarnation;
  gone->number = mine->next_number++;
  gone->stream = mine->next_message++;  // after all messages
  post(gone);
}

void SimEndpoint::close() {
  for (auto& [peer, unused] : links) disconnect(peer);
  closed = true;
  inbox.clear();
  for (const auto& [r, other] : world->endpoints_) other->woken.notify_one();  // one less to wait
}

void SimEndpoint::wish(std::function<void()> call) {
  outbox.push_back(std::move(call));
  world->wishing_.insert(rank);
}

void SimEndpoint::post(const std::shared_ptr<SimPacket>& packet) {
  wish([this_world = world, packet] { this_world->launch(packet); });
}

void SimEndpoint::give_credit(const std::shared_ptr<SimPacket>& packet) {
  wish([w = world, packet] {
    w->after(w->model_.wire(packet->to, packet->from).latency, [w, packet] {
      const auto sender = w->find(packet->from, packet->from_incarnation);
      SimLink* link = sender ? sender->link(packet->to, packet->to_incarnation) : nullptr;
      if (link == nullptr || link->ended() || link->messages_under_way == 0) return;
      if (link->messages_under_way-- < kSimMessages) return;
      sender->inbox.push_back(
          {SimEvent::Kind::kRoom, packet->to, packet->to_incarnation, 0, nullptr, ""});
    });
  });
}

// ---- waiting ------------------------------------------------------------------------------------

bool SimWorld::all_wait() const {
  if (endpoints_.size() < static_cast<size_t>(size_)) return false;
  return std::all_of(endpoints_.begin(), endpoints_.end(), [](const auto& entry) {
    const SimEndpoint& e = *entry.second;
    return e.waiting || e.closed || e.killed;
  });
}

double SimWorld::earliest_limit() const {
  double limit = std::numeric_limits<double>::infinity();
  for (const auto& [rank, endpoint] : endpoints_) {
    if (endpoint->waiting) limit = std::min(limit, endpoint->limit);
  }
  return limit;
}

void SimWorld::wake_those_with_news() {
  for (const auto& [rank, e] : endpoints_) {
    const bool news = (!e->inbox.empty() && !e->stopped) || e->killed || now_ >= e->limit;
    if (!e->waiting || !news) continue;
    e->waiting = false;
    e->woken.notify_one();
  }
}

// Returns true once there is news for this rank, or the clock has come to `until`. Throws when the
// others do not wait for `patience` real seconds: the run would hang.
bool SimWorld::wait(SimEndpoint& endpoint, double until, double patience, Lock& lock) {
  endpoint.limit = until;
  endpoint.waiting = true;
  wake_those_with_news();
  double seen = now_;
  auto since = RealClock::now();
  while (endpoint.waiting) {
    if (all_wait()) {
      next_event(earliest_limit());
      wake_those_with_news();
      continue;
    }
    endpoint.woken.wait_for(lock, kLook);
    if (now_ > seen) {
      seen = now_;
      since = RealClock::now();
    }
    if (RealClock::now() - since < std::chrono::duration<double>(patience)) continue;
    endpoint.waiting = false;
    std::string missing;
    for (Rank r = 0; r < size_; ++r) {
      const auto it = endpoints_.find(r);
      const bool waits = it != endpoints_.end() &&
                         (it->second->waiting || it->second->closed || it->second->killed);
      if (!waits && r != endpoint.rank) missing += fmt::format(" {}", r);
    }
    fail_runtime(
        "virtual time stands still at {:.9g} s: for {:.3g} s these ranks have not waited:{}", now_,
        patience, missing);
  }
  return true;
}

}  // namespace kinet
