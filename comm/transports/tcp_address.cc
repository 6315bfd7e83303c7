#include "comm/transports/tcp_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <sstream>

#include "src/base/check.h"

namespace kinet {
namespace {

std::string numeric(const sockaddr* address) {
  std::array<char, NI_MAXHOST> host{};
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return host.data();
}

bool is_usable(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return false;
  if ((entry.ifa_flags & IFF_LOOPBACK) != 0) return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  const auto* six = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  return !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
}

bool is_wildcard(const std::string& address) { return address == "0.0.0.0" || address == "::"; }

TcpAddresses all_of_this_machine(const std::string& listen) {
  TcpAddresses out{listen, {}};
  const bool six = listen == "::";
  for (const InterfaceAddress& own : own_addresses()) {
    const bool is_six = own.address.find(':') != std::string::npos;
    if (is_six == six) out.reachable.push_back(own.address);
  }
  return out;
}

void set_int(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

int get_int(int fd, int level, int option) {
  int value = 0;
  socklen_t size = sizeof(value);
  getsockopt(fd, level, option, &value, &size);
  return value;
}

}  // namespace

std::vector<InterfaceAddress> own_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(first, freeifaddrs);
  std::vector<InterfaceAddress> four, six;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (!is_usable(*entry)) continue;
    auto& group = entry->ifa_addr->sa_family == AF_INET ? four : six;
    group.push_back({entry->ifa_name, numeric(entry->ifa_addr)});
  }
  four.insert(four.end(), six.begin(), six.end());
  return four;
}

TcpAddresses choose_addresses(const TcpOptions& options, bool one_node) {
  if (!options.address.empty()) {
    if (is_wildcard(options.address)) return all_of_this_machine(options.address);
    return {options.address, {options.address}};
  }
  if (!options.interface.empty()) {
    std::string known;
    for (const InterfaceAddress& own : own_addresses()) {
      if (own.interface == options.interface) return {own.address, {own.address}};
      known += " " + own.interface;
    }
    if (options.interface == "lo") return {"127.0.0.1", {"127.0.0.1"}};
    fail(
        "comm_param.tcp.interface: '{}' is not up or has no address\nhint: interfaces with one: "
        "lo{}",
        options.interface, known);
  }
  if (one_node) return {"127.0.0.1", {"127.0.0.1"}};
  TcpAddresses out = all_of_this_machine("0.0.0.0");
  if (out.reachable.empty()) out = all_of_this_machine("::");
  KINET_CHECK(!out.reachable.empty(),
              "transport tcp: ranks are on several machines, but this one has no address except "
              "loopback\nhint: bring a network interface up, see `ip address`");
  return out;
}

std::string make_offer(const std::vector<HostPort>& addresses) {
  std::string out;
  for (const HostPort& at : addresses) out += (out.empty() ? "" : " ") + at.text();
  return out;
}

std::vector<HostPort> parse_offer(const std::string& offer) {
  std::vector<HostPort> out;
  std::istringstream words(offer);
  try {
    for (std::string word; words >> word;) out.push_back(parse_host_port(word, "offer"));
  } catch (const Error&) {
    out.clear();
  }
  return out;
}

FileDescriptor start_dialling(const HostPort& where, const TcpOptions& options, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found);
  if (error != 0) {
    why = fmt::format("its address {}: {}", where.text(), gai_strerror(error));
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  FileDescriptor fd(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd) set_buffers(fd.get(), options);
  if (!fd || (connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)) {
    why = fmt::format("no connection to {}: {}", where.text(), system_error(errno));
    return {};
  }
  return fd;
}

bool is_self_connected(int fd) { return local_address(fd).text() == peer_text(fd); }

void set_buffers(int fd, const TcpOptions& options) {
  if (options.send_buffer > 0) set_int(fd, SOL_SOCKET, SO_SNDBUF, options.send_buffer);
  if (options.receive_buffer > 0) set_int(fd, SOL_SOCKET, SO_RCVBUF, options.receive_buffer);
}

void set_stream_options(int fd, const TcpOptions& options, double timeout) {
  set_int(fd, IPPROTO_TCP, TCP_NODELAY, options.no_delay ? 1 : 0);
  set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, std::max(1, static_cast<int>(timeout * 1000)));
  set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, static_cast<int>(timeout / 2)));
  set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, static_cast<int>(timeout / 6)));
}

std::string describe_socket(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
  std::array<char, 32> congestion{};
  socklen_t name_size = congestion.size() - 1;
  getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(), &name_size);
  return fmt::format(
      "mss {}, window {} segments, round trip {:.3g} ms, {} retransmitted, buffers {} out and {} "
      "in "
      "bytes, no_delay {}, user timeout {} ms, {}",
      info.tcpi_snd_mss, info.tcpi_snd_cwnd, info.tcpi_rtt / 1000.0, info.tcpi_total_retrans,
      get_int(fd, SOL_SOCKET, SO_SNDBUF), get_int(fd, SOL_SOCKET, SO_RCVBUF),
      get_int(fd, IPPROTO_TCP, TCP_NODELAY), get_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT),
      congestion.data());
}

}  // namespace kinet
