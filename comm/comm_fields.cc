#include "comm/comm_fields.h"

#include "comm/transport.h"

namespace kinet {
namespace {

MessageType make_comm_fields() {
  MessageType type{
      "comm_param",
      "How ranks talk to each other: which transport, how losses are noticed, knobs of transports.",
      {string_field("transport", "auto",
                    "transport between all ranks; auto: for each pair the fastest that works"),
       float_field("setup_timeout", "30", "seconds that ranks may take to find each other"),
       float_field("heartbeat_interval", "0.5", "seconds between two signs of life"),
       float_field("heartbeat_timeout", "5",
                   "seconds without a sign of life after which a rank is lost; 0: never"),
       float_field(
           "stall_timeout", "30",
           "seconds without progress after which a rank that is alive is reported; 0: never"),
       float_field("wait_timeout", "7200",
                   "seconds that a rank which gives signs of life may be waited for"),
       bool_field("overlap", "true",
                  "gradients leave while backward is still running; false: when it is done"),
       uint_field("bucket_bytes", "262144", "with overlap: the least that leaves at a time"),
       bool_field(
           "packed", "true",
           "between workers and servers: parameters travel in one buffer; false: each of the "
           "net's parameters, and with it each layer, in a message of its own"),
       bool_field("in_place", "true",
                  "where a worker sees its only server's memory (transport shm): gradients are "
                  "computed where the server reads them, and weights are read where it has "
                  "published them; false: copies travel, as between machines"),
       float_field("spin", "-1",
                   "microseconds that a waiting rank looks for news before it sleeps; -1: 50 when "
                   "the machine has a core for each rank, else 0")}};
  for (const std::string& name : TransportRegistry::instance().names()) {
    const TransportType* transport = TransportRegistry::instance().find(name);
    if (transport->fields == nullptr) continue;
    type.fields.push_back(message_field(name, *transport->fields, "knobs of transport " + name));
  }
  return type;
}

}  // namespace

const MessageType& comm_fields() {
  static const MessageType type = make_comm_fields();
  return type;
}

}  // namespace kinet
