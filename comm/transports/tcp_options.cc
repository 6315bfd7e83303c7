#include "comm/transports/tcp_options.h"

#include <fmt/format.h>

#include "comm/transports/tcp_address.h"
#include "comm/transports/tcp_handshake.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr int64_t kLeastPiece = 4096;  // bytes; below it headers cost more than payload
constexpr int64_t kMostPiece = 1 << 30;
constexpr int64_t kLeastQueue = 16, kMostQueue = 65536;  // frames

int64_t between(const Params& params, const std::string& field, int64_t least, int64_t most) {
  const int64_t value = params.get_int(field);
  if (value < least || value > most) {
    fail_at(params.where(field),
            fmt::format("tcp: {} is {}, not between {} and {}", field, value, least, most));
  }
  return value;
}

}  // namespace

const MessageType& tcp_fields() {
  static const MessageType type{
      "tcp",
      "Knobs of the transport over plain sockets.",
      {
          uint_field("streams", "2",
                     "connections between two ranks; the first carries messages and small puts, "
                     "the others pieces of large ones"),
          uint_field("piece", "1048576", "largest piece of a put on one stream, in bytes"),
          uint_field("queue", "256",
                     "frames that wait for a stream, in frames; then senders are told to wait"),
          uint_field("send_buffer", "0",
                     "the kernel's buffer for sending, in bytes; 0: the kernel adapts it"),
          uint_field("receive_buffer", "0",
                     "the kernel's buffer for receiving, in bytes; 0: the kernel adapts it"),
          bool_field("no_delay", "true", "send small frames at once instead of gathering them"),
          string_field("address", "",
                       "own numeric address to listen at, 0.0.0.0 or :: for all; empty: loopback "
                       "when all ranks share a machine, else all"),
          string_field("interface", "",
                       "network interface to listen at (eth0), instead of address"),
      }};
  return type;
}

TcpOptions read_tcp_options(const Params& given) {
  const Params params = given.present() ? given : Params(nullptr, &tcp_fields());
  TcpOptions o;
  o.streams = static_cast<int>(between(params, "streams", 1, kMaxStreams));
  o.piece_bytes = static_cast<uint64_t>(between(params, "piece", kLeastPiece, kMostPiece));
  o.queue_frames = static_cast<int>(between(params, "queue", kLeastQueue, kMostQueue));
  o.send_buffer = params.get_int32("send_buffer");
  o.receive_buffer = params.get_int32("receive_buffer");
  o.no_delay = params.get_bool("no_delay");
  o.address = params.get_string("address");
  o.interface = params.get_string("interface");
  if (!o.address.empty() && !o.interface.empty()) {
    fail_at(params.where("interface"), "tcp: address and interface are both given; leave one out");
  }
  return o;
}

TransportProbe probe_tcp(const Params& given) {
  TransportProbe probe;
  try {
    const TcpOptions options = read_tcp_options(given);
    const TcpAddresses one = choose_addresses(options, true);
    listen_on({one.listen, 0});
    probe.works = true;
    probe.summary = fmt::format("works: ranks of one machine meet at {}", one.listen);
    for (const InterfaceAddress& own : own_addresses()) {
      probe.details.push_back(fmt::format("{}: {}", own.interface, own.address));
    }
    if (probe.details.empty()) {
      probe.details.emplace_back("no address except loopback: no ranks on other machines");
    }
  } catch (const Error& e) {
    probe.summary = e.what();
    probe.remedy = "give comm_param { tcp { address: \"...\" } } an address of this machine";
  }
  return probe;
}

}  // namespace kinet
