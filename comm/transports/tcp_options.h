// The knobs of tcp: comm_param { tcp { ... } }. Thread safety: pure functions.
#pragma once

#include "comm/transport.h"
#include "comm/transports/tcp_link.h"

namespace kinet {

const MessageType& tcp_fields();
// Throws Error with the field's place when a value cannot be.
TcpOptions read_tcp_options(const Params& params);
TransportProbe probe_tcp(const Params& params);

}  // namespace kinet
