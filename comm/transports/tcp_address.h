// Which addresses tcp listens at and offers, and the options of its sockets.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "comm/sockets.h"
#include "comm/transports/tcp_link.h"

namespace kinet {

struct TcpAddresses {
  std::string listen;                  // numeric
  std::vector<std::string> reachable;  // what peers are told, best first
};

// One node: loopback. Else the address or interface that the file names, else all of this machine.
// Throws Error when the interface is not there or has no address.
TcpAddresses choose_addresses(const TcpOptions& options, bool one_node);

struct InterfaceAddress {
  std::string interface, address;
};
// Of interfaces that are up; no loopback, no link-local addresses; IPv4 first.
std::vector<InterfaceAddress> own_addresses();

// "10.0.0.5:41234 192.168.1.5:41234": what a peer is told.
std::string make_offer(const std::vector<HostPort>& addresses);
// Empty when it is no such text: the peer's fault, so its loss and no exception here.
std::vector<HostPort> parse_offer(const std::string& offer);

// Starts a connection without waiting. An empty descriptor and `why` when it fails at once.
FileDescriptor start_dialling(const HostPort& where, const TcpOptions& options, std::string& why);
// A dialler on loopback may be given the very port it dials, and then meets itself.
bool is_self_connected(int fd);

void set_buffers(int fd, const TcpOptions& options);  // before the connection
// After: no delay; bytes that nobody acknowledges for `timeout` seconds end the connection.
void set_stream_options(int fd, const TcpOptions& options, double timeout);
// "mss 65483, window 10 segments, round trip 0.02 ms, buffers 2626560 and 131072 bytes, cubic".
std::string describe_socket(int fd);

}  // namespace kinet
