#include "comm/transports/shm_callers.h"

#include <sys/epoll.h>

#include <utility>

namespace kinet {
namespace {

constexpr size_t kMostCallers = 1024;  // at once, known or not; later ones wait in the kernel

}  // namespace

ShmCallers::ShmCallers(const ShmSelf& self, double timeout)
    : self_(self),
      timeout_(timeout),
      name_(shm_socket_name(self.rank, self.incarnation)),
      listener_(shm_listen(name_)) {}

void ShmCallers::accept(double now) {
  while (callers_.size() < kMostCallers) {
    Caller caller{shm_accept(listener_.get()), now + timeout_};
    if (!caller.socket) break;
    if (shm_watch(self_, caller.socket.get(), ShmReady::kCaller, 0)) {
      callers_.push_back(std::move(caller));
    }
  }
}

void ShmCallers::read() {
  std::string why;
  for (Caller& caller : callers_) {
    ShmReceived received;
    const ShmReceive got = shm_receive(caller.socket.get(), self_.token, received, why);
    if (got == ShmReceive::kNothing) continue;
    const ShmPacket& p = received.packet;
    // One greeting, of a lower rank, meant for this process; then it waits for the answer.
    const bool good = got == ShmReceive::kPacket && !caller.greeted &&
                      p.kind == ShmPacket::Kind::kHello && p.from >= 0 && p.from < self_.rank &&
                      p.to == self_.rank && p.to_incarnation == self_.incarnation;
    caller.greeted = good;
    caller.gone = !good;
    caller.hello = std::move(received);
  }
}

void ShmCallers::match(std::span<const std::unique_ptr<ShmLink>> links, double now) {
  for (Caller& caller : callers_) {
    if (!caller.greeted || caller.gone) continue;
    ShmLink* link = links[caller.hello.packet.from].get();
    if (link == nullptr) continue;
    const uint32_t incarnation = caller.hello.packet.from_incarnation;
    if (incarnation == link->incarnation() && link->awaits_call()) {
      // Watched as a link from here on.
      epoll_ctl(self_.epoll.get(), EPOLL_CTL_DEL, caller.socket.get(), nullptr);
      link->adopt(std::move(caller.socket), caller.hello);
      caller.gone = true;
    } else if (incarnation <= link->incarnation()) {
      caller.gone = true;  // a predecessor, or a second call
    }
  }
  std::erase_if(callers_, [now](const Caller& c) { return c.gone || c.deadline < now; });
}

}  // namespace kinet
