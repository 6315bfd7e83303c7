#include "comm/transports/shm_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "comm/rendezvous.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr int kType = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr size_t kLongestToken = 1024;  // bytes
constexpr size_t kMostFiles = 2;        // with one packet

sockaddr_un address_of(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  KINET_CHECK(name.size() + 1 < sizeof(address.sun_path), "socket name '{}' is too long", name);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading 0: abstract
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// Credentials of whoever called connect() or listen() at the other end.
bool credentials(int socket, ucred& out) {
  socklen_t length = sizeof(out);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &out, &length) == 0;
}

union Control {
  cmsghdr align;
  std::array<char, CMSG_SPACE(kMostFiles * sizeof(int))> bytes;
};

void take_files(msghdr& message, ShmReceived& out) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count && i < out.files.size(); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      out.files[i] = ShmFd(fd);
    }
  }
}

}  // namespace

ShmFd::~ShmFd() {
  if (fd_ >= 0) close(fd_);
}

std::string shm_socket_name(Rank rank, uint32_t incarnation) {
  return fmt::format("kinet-shm/{}.{}/{}", rank, incarnation, random_token());
}

ShmFd shm_listen(const std::string& name) {
  ShmFd fd(socket(AF_UNIX, kType, 0));
  socklen_t length = 0;
  const sockaddr_un address = address_of(name, length);
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    fail("transport shm: no unix socket '{}': {}\nhint: --transport tcp", name,
         std::strerror(errno));
  }
  return fd;
}

ShmFd shm_accept(int listener) {
  for (;;) {
    ShmFd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd || shm_same_user(fd.get())) return fd;
  }
}

bool shm_same_user(int socket) {
  ucred peer{};
  return credentials(socket, peer) && peer.uid == geteuid();
}

ShmFd shm_process_of(int socket) {
  ucred peer{};
  if (!credentials(socket, peer)) return ShmFd();
  return ShmFd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));  // closes on exec
}

ShmSend shm_dial(const std::string& name, ShmFd& out) {
  ShmFd fd(socket(AF_UNIX, kType, 0));
  if (!fd) return ShmSend::kFull;  // out of descriptors: the deadline of the link tells
  socklen_t length = 0;
  const sockaddr_un address = address_of(name, length);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return errno == EAGAIN || errno == EINTR ? ShmSend::kFull : ShmSend::kGone;
  }
  if (!shm_same_user(fd.get())) return ShmSend::kGone;
  out = std::move(fd);
  return ShmSend::kSent;
}

ShmSend shm_send(int socket, const ShmPacket& packet, const std::string& token,
                 std::span<const int> files) {
  std::array<iovec, 2> parts{iovec{const_cast<ShmPacket*>(&packet), sizeof(packet)},
                             iovec{const_cast<char*>(token.data()), token.size()}};
  Control control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (!files.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(c), files.data(), files.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return ShmSend::kSent;
  // ETOOMANYREFS: more files on their way than the user may have open.
  const bool later =
      errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS;
  return later ? ShmSend::kFull : ShmSend::kGone;
}

ShmReceive shm_receive(int socket, const std::string& token, ShmReceived& out, std::string& why) {
  out = ShmReceived{};
  std::array<char, kLongestToken> theirs;
  std::array<iovec, 2> parts{iovec{&out.packet, sizeof(out.packet)},
                             iovec{theirs.data(), theirs.size()}};
  Control control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t got = -1;
  do {
    got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return ShmReceive::kNothing;
  if (got <= 0) {
    why = "its process is gone or has closed the link";
    return ShmReceive::kGone;
  }
  take_files(message, out);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    why = "no descriptor is free for its memory\nhint: raise `ulimit -n`";
    return ShmReceive::kBad;
  }
  const size_t packet = sizeof(out.packet);
  const bool whole = (message.msg_flags & MSG_TRUNC) == 0 && static_cast<size_t>(got) >= packet;
  if (whole && std::string_view(theirs.data(), got - packet) == token) return ShmReceive::kPacket;
  why = whole ? "it has another run's token" : "it sent a packet that is too short or too long";
  return ShmReceive::kBad;
}

}  // namespace kinet
