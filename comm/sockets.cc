#include "comm/sockets.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <memory>
#include <system_error>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr int kBacklog = 256;  // ranks that come at the same moment

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList resolve(const HostPort& where, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found);
  if (error != 0) why = fmt::format("host '{}': {}", where.host, gai_strerror(error));
  return {error == 0 ? found : nullptr, &freeaddrinfo};
}

HostPort to_host_port(const sockaddr_storage& address) {
  std::string text(INET6_ADDRSTRLEN, '\0');
  HostPort out;
  if (address.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &six.sin6_addr, text.data(), INET6_ADDRSTRLEN);
    out.port = ntohs(six.sin6_port);
  } else {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &four.sin_addr, text.data(), INET6_ADDRSTRLEN);
    out.port = ntohs(four.sin_port);
  }
  out.host = text.c_str();
  return out;
}

// 0, or the error number.
int connect_one(const FileDescriptor& fd, const addrinfo& address, const Deadline& deadline) {
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!wait_ready(fd.get(), POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// A port of the ephemeral range that nobody listens on can be connected to itself.
bool is_self(int fd) { return local_address(fd).text() == peer_text(fd); }

}  // namespace

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Deadline::Deadline(double seconds)
    : end_(std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(
               std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e9)))) {}

double Deadline::left() const {
  const std::chrono::duration<double> d = end_ - std::chrono::steady_clock::now();
  return std::max(0.0, d.count());
}

int Deadline::milliseconds(int limit) const {
  return static_cast<int>(std::min(std::ceil(left() * 1000), static_cast<double>(limit)));
}

double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string HostPort::text() const {
  const bool six = host.find(':') != std::string::npos;
  return six ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

HostPort parse_host_port(const std::string& text, const std::string& what) {
  constexpr const char* kHint = "hint: host:port, for example 10.0.0.5:7000 or [::1]:7000";
  const size_t colon = text.rfind(':');
  KINET_CHECK(colon != std::string::npos && colon > 0, "{} {}: no port\n{}", what, text, kHint);
  HostPort out;
  out.host = text.substr(0, colon);
  if (out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  } else {
    KINET_CHECK(out.host.find(':') == std::string::npos,
                "{} {}: an IPv6 address goes in brackets\n{}", what, text, kHint);
  }
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, out.port);
  KINET_CHECK(error == std::errc() && stop == end && out.port > 0 && out.port < 65536,
              "{} {}: a port is a number from 1 to 65535\n{}", what, text, kHint);
  KINET_CHECK(!out.host.empty(), "{} {}: no host\n{}", what, text, kHint);
  return out;
}

FileDescriptor listen_on(const HostPort& where) {
  std::string why;
  const AddressList list = resolve(where, AI_PASSIVE, why);
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    FileDescriptor fd(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;  // a port of a run that has just ended can be taken at once
    if (fd && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd.get(), kBacklog) == 0) {
      return fd;
    }
    why = system_error(errno);
    if (errno == EADDRINUSE) why += "; does another run use it, or was rank 0 started twice?";
    if (errno == EADDRNOTAVAIL) why += "; the address must be one of the machine of rank 0";
  }
  fail("the rendezvous cannot listen on {}: {}", where.text(), why);
}

HostPort local_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {"unknown", 0};
  return to_host_port(address);
}

std::string peer_text(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "a peer";
  return to_host_port(address).text();
}

FileDescriptor connect_to(const HostPort& where, const Deadline& deadline, std::string& why) {
  const AddressList list = resolve(where, 0, why);
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    FileDescriptor fd(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int error = fd ? connect_one(fd, *a, deadline) : errno;
    if (error == 0 && !is_self(fd.get())) return fd;
    why = system_error(error == 0 ? ECONNREFUSED : error);
  }
  return {};
}

void set_rendezvous_options(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  const int idle = 5, interval = 2, count = 5;  // seconds, seconds, probes: 15 s
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  const unsigned unacknowledged = 15000;  // milliseconds, for bytes that nobody confirms
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof unacknowledged);
}

bool wait_ready(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int n = ::poll(&entry, 1, deadline.milliseconds());
    if (n > 0) return true;
    if (n == 0 && deadline.passed()) return false;
    if (n < 0 && errno != EINTR) return true;  // the call that follows reports it
  }
}

std::string system_error(int number) { return std::generic_category().message(number); }

}  // namespace kinet
