// Signs of life, losses, goodbyes.
//
//   dead     the transport or the rendezvous says so (a socket was closed), or no sign of life for
//            heartbeat_timeout: the link ends, everybody is told
//   stalled  signs of life, but the same step for stall_timeout: reported with what it does, once
// Whatever arrives is a sign of life; heartbeats are for ranks that have nothing else to say.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/communicator_impl.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kTimerInterval = 1e-3;  // seconds between two looks at the timers

struct AbortNotice {
  Rank culprit = -1;
  std::array<char, 512> why{};
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
T from_bytes(std::span<const std::byte> bytes) {
  T out{};
  std::memcpy(&out, bytes.data(), std::min(sizeof(T), bytes.size()));
  return out;
}

}  // namespace

void Communicator::Impl::beat() {
  const double now = steady_now();
  if (now < next_timer && !virtual_clock) return;  // which moment that is must not matter there
  // A process that was stopped must not take its own absence for the silence of others.
  const double away = last_progress > 0 ? now - last_progress : 0;
  if (heartbeat_timeout > 0 && away > heartbeat_timeout / 2) {
    for (Peer& p : peers) p.heard = std::max(p.heard, now - heartbeat_timeout / 2);
  }
  last_progress = now;
  next_timer = now + kTimerInterval;
  if (!rendezvous_gone) rendezvous->poll(*this);
  const auto arrived = std::move(joining);
  joining.clear();
  for (const auto& [rank, member] : arrived) admit(rank, member);
  if (!linked || heartbeat_timeout <= 0) return;
  send_heartbeats(now);
  look_for_silence(now);
}

void Communicator::Impl::send_heartbeats(double now) {
  if (now < next_beat || left) return;
  next_beat = now + heartbeat_interval;
  for (Rank r = 0; r < world.size; ++r) {
    if (r != world.rank && peers[r].waiting.empty()) send(r, kHeartbeatKind, bytes_of(own_beat));
  }
}

void Communicator::Impl::look_for_silence(double now) {
  for (Rank r = 0; r < world.size; ++r) {
    Peer& p = peers[r];
    if (r == world.rank || p.state != PeerState::kAlive) continue;
    if (now - p.heard > heartbeat_timeout) {
      lose(r, fmt::format("no sign of life for {:.3g} s", now - p.heard));
    } else {
      look_for_stall(r, now);
    }
  }
}

void Communicator::Impl::look_for_stall(Rank r, double now) {
  Peer& p = peers[r];
  const double limit = stall_timeout * static_cast<double>(std::max<uint64_t>(p.beat.patience, 1));
  if (stall_timeout <= 0 || p.stall_told || now - p.beat_changed < limit) return;
  if (p.beat.step == 0 || p.beat.phase[0] == 0) return;  // it does not tell how far it is
  p.stall_told = true;
  warn(fmt::format("{} is alive but stays at step {} for {:.3g} s: {}", name_of(r), p.beat.step,
                   now - p.beat_changed, p.beat.phase.data()));
}

void Communicator::Impl::heard_from(Rank peer) { peers[peer].heard = steady_now(); }

// Once an incarnation: the first cause is the one that is told.
void Communicator::Impl::lose(Rank peer, const std::string& why) {
  const PeerState state = peers[peer].state;
  if (state == PeerState::kLost || state == PeerState::kLeft) return;
  // After our own goodbye a peer may close its end at once: nothing is lost by that.
  if (left) return end_link(peer, PeerState::kLeft, "it closed the link after our goodbye");
  losses.push_back(peer);
  if (!rendezvous_gone) rendezvous->report_lost(peer, peers[peer].incarnation, why);
  end_link(peer, PeerState::kLost, why);
}

void Communicator::Impl::end_link(Rank peer, PeerState state, const std::string& why) {
  Peer& p = peers[peer];
  p.state = state;
  p.why_lost = why;
  p.waiting.clear();
  if (p.transport != nullptr) p.transport->disconnect(peer);
  log(fmt::format("{} {}: {}", name_of(peer), state == PeerState::kLeft ? "left" : "is lost", why));
  const auto handlers = lost_handlers;  // one of them may remove itself
  for (const auto& [number, handler] : handlers) handler(peer, why);
}

void Communicator::Impl::on_own_message(Rank from, uint8_t kind,
                                        std::span<const std::byte> payload) {
  Peer& p = peers[from];
  if (kind == kHeartbeatKind) {
    auto beat = from_bytes<Heartbeat>(payload);
    beat.phase.back() = 0;  // whatever was sent, it is a string
    if (beat.step != p.beat.step) {
      p.beat_changed = steady_now();
      p.stall_told = false;
    }
    p.beat = beat;
  } else if (kind == kGoodbyeKind) {
    p.goodbye = from_bytes<uint64_t>(payload);
    see_off(from);
  } else if (kind == kAbortKind) {
    auto notice = from_bytes<AbortNotice>(payload);
    notice.why.back() = 0;
    const Rank culprit = notice.culprit;
    const bool known = culprit >= 0 && culprit < world.size && culprit != world.rank;
    if (known) lose(culprit, notice.why.data());
    if (culprit != from && peers[from].state == PeerState::kAlive) {
      end_link(from, PeerState::kLeft, fmt::format("it stopped: {}", notice.why.data()));
    }
    if (!known) losses.push_back(from);
  }
}

// Messages may overtake puts, so a goodbye says how many puts came before it.
void Communicator::Impl::say_goodbye() {
  for (Rank r = 0; r < world.size; ++r) {
    const uint64_t puts = peers[r].posted - peers[r].first_posted;
    if (r != world.rank) send(r, kGoodbyeKind, bytes_of(puts));
  }
}

void Communicator::Impl::see_off(Rank peer) {
  const Peer& p = peers[peer];
  if (p.state != PeerState::kAlive || !p.goodbye || p.arrived < *p.goodbye) return;
  end_link(peer, PeerState::kLeft, "it ended its run");
}

// Also after a goodbye: then puts of it are missing.
void Communicator::Impl::on_peer_lost(Rank peer, const std::string& why) { lose(peer, why); }

void Communicator::Impl::on_member_lost(Rank rank, uint32_t incarnation, const std::string& why) {
  if (peers[rank].incarnation != incarnation) return;
  if (rank != world.rank) return lose(rank, why);
  self_lost = why;
  for (Rank r = 0; r < world.size; ++r) {
    if (peers[r].transport != nullptr) peers[r].transport->disconnect(r);
    if (r != world.rank) peers[r].state = PeerState::kLost;
  }
}

// Training goes on without it; only successors can no longer be found.
void Communicator::Impl::on_rendezvous_lost(const std::string& why) {
  rendezvous_gone = true;
  if (!left) log(fmt::format("the rendezvous is gone ({}): lost ranks cannot be replaced", why));
}

std::string Communicator::Impl::self_lost_text() const {
  return fmt::format(
      "rank {} was declared lost: {}\nhint: it was stopped or cut off for longer than "
      "heartbeat_timeout ({:.3g} s), and the others went on without it",
      world.rank, self_lost, heartbeat_timeout);
}

void Communicator::Impl::check_self() const {
  if (!thread_error.empty()) fail_runtime("{}", thread_error);
  if (!self_lost.empty()) fail_runtime("{}", self_lost_text());
}

std::string Communicator::Impl::describe_states() const {
  static constexpr std::array<const char*, 4> kNames{"connecting", "alive", "left", "lost"};
  const double now = steady_now();
  std::string out;
  for (Rank r = 0; r < world.size; ++r) {
    const Peer& p = peers[r];
    if (r == world.rank) {
      out += fmt::format("  rank {} (this one)", r);
    } else {
      out += fmt::format("  {}: {} over {}", name_of(r), kNames[static_cast<int>(p.state)],
                         p.transport_name);
      if (p.heard > 0) out += fmt::format(", heard {:.2f} s ago", now - p.heard);
      if (!p.waiting.empty()) out += fmt::format(", {} messages wait for it", p.waiting.size());
      if (!p.why_lost.empty()) out += ", " + p.why_lost;
    }
    const Heartbeat& beat = r == world.rank ? own_beat : p.beat;
    if (beat.phase[0] != 0) out += fmt::format(", step {}: {}", beat.step, beat.phase.data());
    out += "\n";
  }
  return out;
}

// ---- the ends
// -------------------------------------------------------------------------------------

void Communicator::leave() {
  const std::lock_guard guard(impl_->lock);
  if (impl_->left) return;
  impl_->say_goodbye();
  impl_->left = true;
  if (!impl_->rendezvous_gone) impl_->rendezvous->leave();
  impl_->drain();
}

void Communicator::abort(const std::string& why, Rank culprit) {
  const std::lock_guard guard(impl_->lock);
  if (impl_->left) return;
  AbortNotice notice;
  notice.culprit = culprit;
  std::memcpy(notice.why.data(), why.data(), std::min(why.size(), notice.why.size() - 1));
  for (Rank r = 0; r < size(); ++r) {
    if (r != rank()) impl_->send(r, kAbortKind, bytes_of(notice));
  }
  impl_->left = true;
  if (!impl_->rendezvous_gone) impl_->rendezvous->leave();
  impl_->drain();
}

// Last words: whatever still waits for credit gets a moment.
void Communicator::Impl::drain() {
  const double until = steady_now() + 1;
  const auto waits = [this] {
    return std::any_of(peers.begin(), peers.end(), [](const Peer& p) {
      return p.state == PeerState::kAlive && !p.waiting.empty();
    });
  };
  do {
    if (progress() == 0 && waits()) sleep(0.001);
  } while (waits() && steady_now() < until);
}

}  // namespace kinet
