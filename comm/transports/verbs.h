// What the files of the verbs transport share beyond the link: see verbs.cc.
#pragma once

#include "comm/transport.h"

namespace kinet {

// For kinet doctor: devices, ports, addresses, limits, permissions. Thread safety: pure.
TransportProbe probe_verbs(const Params& params);

}  // namespace kinet
