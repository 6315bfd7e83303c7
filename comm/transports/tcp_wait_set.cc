#include "comm/transports/tcp_wait_set.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr long kTickNs = 100'000'000;  // how exactly time-outs of links are kept

}  // namespace

TcpWaitSet::TcpWaitSet(uint64_t timer_tag, TransportCounters& counters)
    : counters_(counters),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  add(timer_.get(), EPOLLIN, timer_tag);
}

void TcpWaitSet::control(int operation, int fd, uint32_t events, uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  ++counters_.system_calls;
  if (epoll_ctl(epoll_.get(), operation, fd, &event) != 0) {
    fail_runtime("transport tcp: epoll_ctl: {}", system_error(errno));
  }
}

std::span<const epoll_event> TcpWaitSet::ready(std::span<epoll_event> room) {
  ++counters_.system_calls;
  const int count = epoll_wait(epoll_.get(), room.data(), static_cast<int>(room.size()), 0);
  return room.first(static_cast<size_t>(std::max(count, 0)));
}

void TcpWaitSet::tick(bool on) {
  if (on == ticking_) return;
  ticking_ = on;
  set_timer(on ? kTickNs : 0);
}

void TcpWaitSet::kick() { set_timer(1); }

void TcpWaitSet::set_timer(long first_ns) {
  itimerspec when{};
  when.it_value.tv_nsec = first_ns;
  when.it_interval.tv_nsec = ticking_ ? kTickNs : 0;
  ++counters_.system_calls;
  timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void TcpWaitSet::take_timer() {
  uint64_t ignored = 0;
  ++counters_.system_calls;
  [[maybe_unused]] const ssize_t n = read(timer_.get(), &ignored, sizeof(ignored));
}

}  // namespace kinet
