// Transport shm: what poll() does, and how a rank falls asleep and wakes.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "comm/transports/shm.h"

namespace kinet {
namespace {

constexpr unsigned kClockEvery = 32;  // polls between looks at the clock
constexpr int kEntriesAtOnce = 64;    // of one peer, then others have their turn
constexpr int kReadyAtOnce = 64;      // descriptors

}  // namespace

int Shm::poll(EventSink& sink) {
  retired_.clear();
  // Old rings of the bell are taken away before the rings are looked at, never after.
  if (sleep_ != Sleep::kAwake || setting_up_ > 0 || time_to_check()) look_at_descriptors();
  int count = 0;
  // Handlers connect and disconnect; what is missed is seen by the next poll.
  for (size_t i = 0; i < active_.size(); ++i) count += poll_link(*links_[active_[i]], sink);
  if (sleep_ == Sleep::kArmed && count == 0) {
    sleep_ = Sleep::kAsleep;
    look_for_room();
  } else if (sleep_ != Sleep::kAwake) {
    wake();
  }
  return count;
}

bool Shm::time_to_check() {
  if (++polls_ % kClockEvery != 0) return false;
  const double time = now();
  if (time < next_check_) return false;
  next_check_ = time + settings_.check_seconds;
  return true;
}

void Shm::look_at_descriptors() {
  std::array<epoll_event, kReadyAtOnce> events;
  const int count = epoll_wait(self_.epoll.get(), events.data(), kReadyAtOnce, 0);
  if (setting_up_ == 0) ++counters_.system_calls;
  bool calls = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t data = events[i].data.u64;
    calls = handle_ready(static_cast<ShmReady>(data >> 32), static_cast<Rank>(data)) || calls;
  }
  if (calls) callers_->read();
  if (calls || setting_up_ > 0) callers_->match(links_, now());
  if (setting_up_ > 0) continue_set_up();
}

bool Shm::handle_ready(ShmReady what, Rank peer) {
  eventfd_t ignored = 0;
  switch (what) {
    case ShmReady::kBell:
      ++counters_.system_calls;
      eventfd_read(self_.bell.get(), &ignored);
      return false;
    case ShmReady::kListener:
      callers_->accept(now());
      return true;
    case ShmReady::kCaller:
      return true;
    case ShmReady::kLink:
      if (setting_up_ == 0) ++counters_.system_calls;
      if (links_[peer]) links_[peer]->flush();
      if (links_[peer]) links_[peer]->read_socket();
      return false;
    case ShmReady::kProcess:
      if (links_[peer]) links_[peer]->end("its process has ended");
      return false;
  }
  return false;
}

void Shm::continue_set_up() {
  const double time = now();
  for (const Rank r : active_) {
    ShmLink& link = *links_[r];
    if (!link.setting_up()) continue;
    link.dial();
    if (time > link.deadline()) link.end(fmt::format("no link within {:.0f} s", timeout_));
  }
}

int Shm::poll_link(ShmLink& link, EventSink& sink) {
  int count = 0;
  if (link.came_up() && !link.reported_up) {
    link.reported_up = true;
    --setting_up_;
    sink.on_connected(link.peer());
    ++count;
  }
  if (link.completed > 0 && !link.closed) {
    sink.on_puts_completed(link.peer(), std::exchange(link.completed, 0));
    ++count;
  }
  // A dead peer writes no more, so its ring comes to an end within one ring's worth of entries.
  bool end = link.ended();
  if (link.reported_up) count += take_entries(link, end, sink, end);
  if (end && !link.closed) {
    ++count;
    const Rank peer = link.peer();
    const std::string& why = link.why();  // kept until the next poll
    disconnect(peer);
    sink.on_peer_lost(peer, why);
  }
  return count;
}

int Shm::take_entries(ShmLink& link, bool all, EventSink& sink, bool& end) {
  int count = 0;
  const size_t most = all ? self_.ring_bytes / kShmCell : kEntriesAtOnce;
  for (size_t i = 0; i < most && !link.closed; ++i) {
    const ShmInbox::Take got = link.inbox().take(entry_);
    if (got == ShmInbox::Take::kNothing) break;
    if (got == ShmInbox::Take::kRubbish) {
      link.end("it wrote rubbish into a ring");
      end = true;
      break;
    }
    ++count;
    if (got == ShmInbox::Take::kMessage) {
      ++counters_.messages_received;
      sink.on_message(link.peer(), {entry_.data, entry_.bytes});
    } else {
      ++counters_.puts_arrived;
      sink.on_put_arrived(link.peer(), entry_.notify, entry_.bytes);
    }
  }
  if (count > 0 && !link.closed && link.inbox().release() && !link.ended()) ring(link);
  return count;
}

void Shm::arm() {
  sleep_ = Sleep::kArmed;
  for (const Rank r : active_) {
    ShmLink& link = *links_[r];
    link.inbox().set_sleeping(true);
    if (link.starved && link.up()) link.outbox().set_wants_room(true);
  }
}

// Room that came between the answer kBusy and arm() would wake nobody: our own bell does.
void Shm::look_for_room() {
  for (const Rank r : active_) {
    ShmLink& link = *links_[r];
    if (!link.starved || !link.up()) continue;
    if (link.outbox().room_for(kMaxMessage) != ShmOutbox::Room::kNo) {
      ++counters_.system_calls;
      eventfd_write(self_.bell.get(), 1);
    }
  }
}

void Shm::wake() {
  sleep_ = Sleep::kAwake;
  for (const Rank r : active_) {
    ShmLink& link = *links_[r];
    link.inbox().set_sleeping(false);
    if (link.starved && link.up()) link.outbox().set_wants_room(false);
  }
}

}  // namespace kinet
