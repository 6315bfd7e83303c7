// Polling and sleeping.
//
// One rule: whoever waits, polls. While a thread is in wait_until() the progress thread stays
// parked; when nobody waits it sleeps on the descriptors of all transports and of the rendezvous.
//
// A sleep cannot miss news:  arm all transports -> poll once more -> sleep on the descriptors.
// What comes before the arming is seen by that poll; what comes after it makes a descriptor
// readable.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "comm/communicator_impl.h"
#include "src/base/check.h"

namespace kinet {
namespace {

using Lock = std::unique_lock<std::recursive_mutex>;

constexpr size_t kMaxHeld = 4096;      // events without a handler
constexpr double kRetrySleep = 1e-3;   // seconds: when something was busy
constexpr double kLongestSleep = 0.1;  // seconds: signals and stop flags are looked at this often

}  // namespace

double steady_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- polling
// ----------------------------------------------------------------------------------------

int Communicator::progress() {
  const Lock guard(impl_->lock);
  const int events = impl_->progress();
  impl_->rearm_for_sleeper();
  return events;
}

// A poll after arm() may undo it. A thread that fell asleep before cannot know that another one has
// polled since: whoever has polled and goes away arms once more.
void Communicator::Impl::rearm_for_sleeper() {
  if (!thread_sleeps) return;
  for (const auto& [name, transport] : transports) transport->arm();
  if (progress() > 0) eventfd_write(wake_fd, 1);
}

int Communicator::Impl::progress() {
  KINET_CHECK(polling == 0, "a handler of the communicator may not poll");
  ++polling;
  int events = 0;
  try {
    for (const auto& [name, transport] : transports) events += transport->poll(*this);
    for (Rank r = 0; r < world.size; ++r) {
      if (!peers[r].waiting.empty()) flush_waiting(r);
    }
    for (const auto& [number, pump] : pumps) pump();
    beat();
  } catch (...) {
    --polling;
    throw;
  }
  --polling;
  return events;
}

void Communicator::Impl::flush_waiting(Rank peer) {
  Peer& p = peers[peer];
  while (!p.waiting.empty() && p.state == PeerState::kAlive &&
         p.transport->send(peer, p.waiting.front()) == Post::kAccepted) {
    p.waiting.pop_front();
  }
}

void Communicator::Impl::on_message(Rank from, std::span<const std::byte> message) {
  if (peers[from].state != PeerState::kAlive) return;
  heard_from(from);
  if (message.size() < kMessageHeader) return lose(from, "it sent a message without a header");
  const auto kind = static_cast<uint8_t>(message[0]);
  const auto payload = message.subspan(kMessageHeader);
  if (kind < kFirstFreeKind) {
    on_own_message(from, kind, payload);
  } else if (message_handlers[kind]) {
    message_handlers[kind](from, payload);
  } else {
    hold({from, kind, false, 0, 0, {payload.begin(), payload.end()}});
  }
}

// A peer may be ahead: what comes before its handler is kept for it.
void Communicator::Impl::hold(HeldEvent event) {
  if (held.size() >= kMaxHeld) {
    return lose(event.from,
                fmt::format("it sends messages of kind {}, which nobody here knows", event.kind));
  }
  held.push_back(std::move(event));
}

void Communicator::Impl::deliver_held(uint8_t kind) {
  std::vector<HeldEvent> rest;
  for (HeldEvent& event : std::exchange(held, {})) {
    const bool gone = peers[event.from].state != PeerState::kAlive;
    if (event.kind == kind && !gone && event.is_put && put_handlers[kind]) {
      put_handlers[kind](event.from, event.tag, event.bytes);
    } else if (event.kind == kind && !gone && !event.is_put && message_handlers[kind]) {
      message_handlers[kind](event.from, event.payload);
    } else if (!gone) {
      rest.push_back(std::move(event));
    }
  }
  held.insert(held.begin(), std::make_move_iterator(rest.begin()),
              std::make_move_iterator(rest.end()));
}

void Communicator::Impl::on_put_arrived(Rank from, uint32_t notify, uint64_t bytes) {
  if (peers[from].state != PeerState::kAlive) return;
  heard_from(from);
  ++peers[from].arrived;
  const uint32_t kind = notify >> 24;
  if (put_handlers[kind]) {
    put_handlers[kind](from, notify & kMaxTag, bytes);
  } else {
    hold({from, static_cast<uint8_t>(kind), true, notify & kMaxTag, bytes, {}});
  }
  see_off(from);
}

void Communicator::Impl::on_puts_completed(Rank to, uint64_t count) {
  peers[to].completed += count;
}

// ---- waiting
// ----------------------------------------------------------------------------------------

// Virtual time may come to a deadline exactly; what happens then still counts as in time.
void Communicator::wait_until(const std::function<bool()>& done, double timeout,
                              const std::string& what) {
  constexpr double kJustAfter = 1e-9;  // seconds
  if (impl_->wait(done, now() + timeout + kJustAfter)) return;
  const Lock lock(impl_->lock);
  fail_runtime("waited {:.3g} s for {}\n{}", timeout, what, impl_->describe_states());
}

void Communicator::sleep_until(double time) { impl_->wait(nullptr, time); }

bool Communicator::sleep_until(double time, const std::function<bool()>& done) {
  return impl_->wait(done, time);
}

// Without `done` there is no answer to look out for: no spinning.
bool Communicator::Impl::wait(const std::function<bool()>& done, double deadline) {
  struct Waiting {  // keeps the progress thread parked
    explicit Waiting(Impl& impl) : m(impl) { ++m.waiters; }
    ~Waiting() {
      if (--m.waiters == 0 && m.parked) {
        const std::lock_guard park_lock(m.park_mutex);
        m.park.notify_one();
      }
    }
    Impl& m;
  } const waiting(*this);

  Lock guard(lock);
  const auto over = [&done] { return done && done(); };
  const auto look_for = [&] { return done ? next_spin() : 0; };
  bool slept = false, is_done = over();
  if (is_done) {
    rearm_for_sleeper();
    return true;
  }
  double quiet_since = steady_now(), spin_time = look_for();
  while (!is_done) {
    const int events = progress();
    check_self();
    is_done = over();
    if (is_done || now() >= deadline) break;
    if (events > 0) {
      quiet_since = steady_now();
    } else if (virtual_clock) {
      for (const auto& [name, transport] : transports) transport->advance(deadline);
    } else if (steady_now() - quiet_since >= spin_time) {
      for (const auto& [name, transport] : transports) transport->arm();
      if (progress() > 0) continue;
      is_done = over();
      if (is_done) break;
      const double limit = sleep_limit(deadline);
      guard.unlock();
      const bool heard = sleep(limit);
      guard.lock();
      if (!heard && limit >= kLongestSleep && (over() || progress() > 0)) ++overslept;
      quiet_since = steady_now();
      spin_time = look_for();
      slept = true;
    }
  }
  if (done) vain_spins = slept ? vain_spins + 1 : 0;
  rearm_for_sleeper();
  return is_done;
}

// Looking for news is worth while where the peer answers meanwhile. Where it never does (it
// computes, or has to share this very core), it is tried for a moment only, and in full now and
// then.
double Communicator::Impl::next_spin() {
  constexpr int kEnough = 4, kTryEvery = 16;
  constexpr double kMoment = 2e-6;  // seconds
  if (vain_spins < kEnough || ++spins % kTryEvery == 0) return spin;
  return std::min(spin, kMoment);
}

double Communicator::Impl::sleep_limit(double deadline) {
  double limit = std::min(kLongestSleep, std::max(deadline - steady_now(), 0.0));
  if (heartbeat_timeout > 0) limit = std::min(limit, heartbeat_interval);
  const bool waits =
      std::any_of(peers.begin(), peers.end(), [](const Peer& p) { return !p.waiting.empty(); });
  if (std::exchange(retry, false) || waits) limit = std::min(limit, kRetrySleep);
  if (!all_have_fds) {
    for (const auto& [name, transport] : transports) {
      if (transport->event_fd() < 0) limit = std::min(limit, transport->max_sleep());
    }
  }
  return limit;
}

// false: nothing happened.
bool Communicator::Impl::sleep(double seconds) {
  std::array<epoll_event, 8> events{};
  const int count = epoll_wait(epoll_fd, events.data(), static_cast<int>(events.size()),
                               std::max(1, static_cast<int>(std::lround(seconds * 1000))));
  eventfd_t ignored = 0;
  if (!stop) eventfd_read(wake_fd, &ignored);
  return count != 0;
}

void Communicator::Impl::build_wait_set() {
  if (epoll_fd < 0) epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (wake_fd < 0) wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  const auto watch = [this](int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);  // EEXIST: it is there already
  };
  watch(wake_fd);
  if (rendezvous->event_fd() >= 0) watch(rendezvous->event_fd());
  for (const auto& [name, transport] : transports) {
    if (transport->event_fd() >= 0) watch(transport->event_fd());
    all_have_fds = all_have_fds && transport->event_fd() >= 0;
  }
}

// ---- the progress thread
// ----------------------------------------------------------------------------

void Communicator::Impl::start_thread() {
  thread = std::thread([this] { run_thread(); });
}

void Communicator::Impl::stop_thread() {
  if (!thread.joinable()) return;
  stop = true;
  eventfd_write(wake_fd, 1);
  {
    const std::lock_guard guard(park_mutex);
    park.notify_one();
  }
  thread.join();
}

void Communicator::Impl::run_thread() {
  while (!stop) {
    if (waiters > 0) {
      std::unique_lock lock(park_mutex);
      parked = true;
      park.wait_for(lock, std::chrono::duration<double>(kLongestSleep),
                    [this] { return waiters == 0 || stop; });
      parked = false;
      continue;
    }
    double limit = 0;
    {
      const Lock guard(lock);
      // One that came while this thread waited for the lock may be asleep by now, and would not
      // hear of news that are taken here.
      if (waiters > 0) continue;
      try {
        if (progress() > 0) continue;
        for (const auto& [name, transport] : transports) transport->arm();
        if (progress() > 0) continue;
      } catch (const Error& error) {  // a handler's: the thread that waits must hear of it
        if (thread_error.empty()) thread_error = error.what();
        return;
      }
      limit = sleep_limit(steady_now() + kLongestSleep);
      thread_sleeps = true;
    }
    sleep(limit);
    thread_sleeps = false;
  }
}

}  // namespace kinet
