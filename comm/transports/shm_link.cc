#include "comm/transports/shm_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr int kPacketsAtOnce = 64;  // then others have their turn

epoll_event event_of(ShmReady what, Rank peer, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = uint64_t{static_cast<uint32_t>(what)} << 32 | static_cast<uint32_t>(peer);
  return event;
}

// Pages are entered into the page table now and not at the first put. A wish: kernels before 5.14
// do not know it.
void populate(const SharedMemory& memory) {
#ifdef MADV_POPULATE_WRITE
  madvise(memory.data(), memory.bytes(), MADV_POPULATE_WRITE);
#endif
}

}  // namespace

bool shm_watch(const ShmSelf& self, int fd, ShmReady what, Rank peer) {
  epoll_event event = event_of(what, peer, EPOLLIN | EPOLLRDHUP);
  return epoll_ctl(self.epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

ShmLink::ShmLink(const ShmSelf& self, Rank peer, uint32_t incarnation, std::string name,
                 double deadline)
    : self_(self),
      peer_(peer),
      incarnation_(incarnation),
      name_(std::move(name)),
      deadline_(deadline),
      inbox_(self.ring_bytes) {
  if (!self.regions.empty()) inbox_.set_last_key(self.regions.rbegin()->first);
}

void ShmLink::dial() {
  if (socket_ || name_.empty() || ended()) return;
  switch (shm_dial(name_, socket_)) {
    case ShmSend::kSent:
      watch_socket();
      if (!ended()) send_hello();
      break;
    case ShmSend::kGone:
      end("nobody answers at its socket: its process is gone, or belongs to another user");
      break;
    case ShmSend::kFull:
      break;
  }
}

void ShmLink::adopt(ShmFd socket, ShmReceived& hello) {
  socket_ = std::move(socket);
  watch_socket();
  if (!ended()) open(hello);
  if (!ended()) send_hello();
}

void ShmLink::watch_socket() {
  process_ = shm_process_of(socket_.get());
  if (!shm_watch(self_, socket_.get(), ShmReady::kLink, peer_) ||
      (process_ && !shm_watch(self_, process_.get(), ShmReady::kProcess, peer_))) {
    end(fmt::format("its socket cannot be watched: {}", std::strerror(errno)));
  }
}

ShmPacket ShmLink::packet(ShmPacket::Kind kind, uint64_t key, uint64_t value) const {
  ShmPacket out;
  out.kind = kind;
  out.from = self_.rank;
  out.to = peer_;
  out.from_incarnation = self_.incarnation;
  out.to_incarnation = incarnation_;
  out.key = key;
  out.value = value;
  return out;
}

void ShmLink::send_hello() {
  const std::array<int, 2> files{inbox_.fd(), self_.bell.get()};
  const ShmPacket hello = packet(ShmPacket::Kind::kHello, 0, self_.ring_bytes);
  // The first packets of a new socket always find room.
  if (shm_send(socket_.get(), hello, self_.token, files) != ShmSend::kSent) {
    end("its process is gone");
  } else if (opened()) {
    up_ = true;
    for (const auto& [key, block] : self_.regions) announce(ShmPacket::Kind::kRegion, key);
  }
}

// The peer's hello is here: `ring` is where this rank writes to, `bell` wakes the peer.
void ShmLink::open(ShmReceived& hello) {
  auto& [ring, bell] = hello.files;
  const uint64_t bytes = hello.packet.value;
  if (!ring || !bell || !std::has_single_bit(bytes) || bytes < kShmSmallestRing ||
      bytes > kShmLargestRing) {
    return end("its greeting makes no sense");
  }
  try {
    outbox_ = std::make_unique<ShmOutbox>(ring.take(), bytes);
  } catch (const Error& error) {
    return end(error.what());
  }
  bell_ = std::move(bell);
  fcntl(bell_.get(), F_SETFL, fcntl(bell_.get(), F_GETFL) | O_NONBLOCK);
}

void ShmLink::read_socket() {
  ShmReceived received;
  std::string why;
  for (int i = 0; i < kPacketsAtOnce && socket_ && !ended(); ++i) {
    switch (shm_receive(socket_.get(), self_.token, received, why)) {
      case ShmReceive::kNothing:
        return;
      case ShmReceive::kPacket:
        handle(received);
        break;
      default:
        end(why);
    }
  }
}

void ShmLink::handle(ShmReceived& received) {
  const ShmPacket& p = received.packet;
  if (p.from != peer_ || p.to != self_.rank || p.from_incarnation != incarnation_ ||
      p.to_incarnation != self_.incarnation) {
    return end("another rank speaks on its link");
  }
  if (p.kind == ShmPacket::Kind::kHello && !opened()) {
    open(received);
    if (ended()) return;
    up_ = true;
    for (const auto& [key, block] : self_.regions) announce(ShmPacket::Kind::kRegion, key);
  } else if (p.kind == ShmPacket::Kind::kRegion && opened()) {
    take_region(received);
  } else if (p.kind == ShmPacket::Kind::kWithdraw && opened()) {
    regions_.erase(p.key);
  } else {
    end("it sent a packet out of turn");
  }
}

void ShmLink::take_region(ShmReceived& received) {
  const ShmPacket& p = received.packet;
  if (p.key <= last_announced_ || !received.files[0]) return end("a region of it makes no sense");
  last_announced_ = p.key;
  try {
    const auto [it, added] = regions_.emplace(
        p.key,
        std::make_shared<SharedMemory>(SharedMemory::from_fd(received.files[0].take(), p.value)));
    populate(*it->second);
  } catch (const Error& error) {
    end(error.what());
  }
}

void ShmLink::announce(ShmPacket::Kind kind, uint64_t key) {
  if (kind == ShmPacket::Kind::kRegion) inbox_.set_last_key(key);
  if (!up()) return;
  const auto it = self_.regions.find(key);
  unsent_.push_back(packet(kind, key, it == self_.regions.end() ? 0 : it->second.bytes));
  flush();
}

void ShmLink::flush() {
  while (!unsent_.empty() && !ended()) {
    const ShmPacket& next = unsent_.front();
    const auto it = self_.regions.find(next.key);
    const bool region = next.kind == ShmPacket::Kind::kRegion;
    // A region that went away while its announcement waited: the withdrawal alone does no harm.
    if (!region || it != self_.regions.end()) {
      const int file = region ? it->second.fd : -1;
      const std::span<const int> files(&file, region ? 1 : 0);
      const ShmSend sent = shm_send(socket_.get(), next, self_.token, files);
      if (sent == ShmSend::kGone) return end("its process is gone or has closed the link");
      if (sent == ShmSend::kFull) break;
    }
    unsent_.pop_front();
  }
  if (waits_to_write_ == !unsent_.empty()) return;
  waits_to_write_ = !unsent_.empty();
  epoll_event event =
      event_of(ShmReady::kLink, peer_, EPOLLIN | EPOLLRDHUP | (waits_to_write_ ? EPOLLOUT : 0U));
  epoll_ctl(self_.epoll.get(), EPOLL_CTL_MOD, socket_.get(), &event);
}

void ShmLink::end(const std::string& why) {
  if (why_.empty()) why_ = why;
}

void ShmLink::close() {
  if (process_) epoll_ctl(self_.epoll.get(), EPOLL_CTL_DEL, process_.get(), nullptr);
  if (!socket_) return;
  epoll_ctl(self_.epoll.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
  shutdown(socket_.get(), SHUT_RDWR);
}

bool ShmLink::ring_bell() const { return eventfd_write(bell_.get(), 1) == 0; }

std::shared_ptr<SharedMemory> ShmLink::region(uint64_t key) const {
  const auto it = regions_.find(key);
  return it == regions_.end() ? nullptr : it->second;
}

bool ShmLink::key_is_false(uint64_t key) const {
  return key <= last_announced_ || key > outbox_->last_key();
}

}  // namespace kinet
