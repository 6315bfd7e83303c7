// What tcp waits for: its sockets, in an epoll set whose descriptor is event_fd(), and a timer that
// ticks while something may have to be given up. Thread safety: none; belongs to its transport.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "comm/sockets.h"
#include "comm/transport.h"

namespace kinet {

class TcpWaitSet {
 public:
  // Events of the timer come with `timer_tag`; system calls are counted.
  TcpWaitSet(uint64_t timer_tag, TransportCounters& counters);

  int fd() const { return epoll_.get(); }
  void add(int fd, uint32_t events, uint64_t tag) { control(EPOLL_CTL_ADD, fd, events, tag); }
  void change(int fd, uint32_t events, uint64_t tag) { control(EPOLL_CTL_MOD, fd, events, tag); }
  // What is ready now; never waits.
  std::span<const epoll_event> ready(std::span<epoll_event> room);

  void tick(bool on);  // ten times a second, or not
  void kick();         // the timer is due now: fd() becomes readable
  void take_timer();   // its event has been seen

 private:
  void control(int operation, int fd, uint32_t events, uint64_t tag);
  void set_timer(long first_ns);

  TransportCounters& counters_;
  FileDescriptor epoll_, timer_;
  bool ticking_ = false;
};

}  // namespace kinet
