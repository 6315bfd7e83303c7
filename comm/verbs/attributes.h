// The attributes that take a queue pair from one state to the next, as plain structs built by pure
// functions: what is sent to the device can be looked at and tested without one.
//
//   RESET -> INIT   port, partition, who may write here
//   INIT  -> RTR    the way to the peer: address, route header, MTU, its number and first packet
//   RTR   -> RTS    own first packet, patience
// Route header: needed on Ethernet (RoCE), and on InfiniBand when the peer has no LID here.
// MTU: the smaller active MTU of both ports; larger packets of one side are errors at the other.
// Thread safety: pure functions; no device is touched.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "comm/verbs/gid.h"
#include "comm/verbs/settings.h"

namespace kinet::verbs {

struct Port {
  std::string device;
  int number = 1;
  bool active = false;
  std::string state;  // "ACTIVE", "DOWN"
  bool ethernet = true;
  int lid = 0;
  int mtu = 1024;  // bytes, the active one
  uint32_t max_message = 1U << 30;
  double gigabits = 0;
};

// One end of a queue pair, as the other end needs it.
struct QueuePairAddress {
  uint32_t number = 0;
  uint32_t first_packet = 0;  // sequence number, 24 bits
};

// The path to the peer's port.
struct Path {
  Gid gid{};
  int lid = 0;
  int mtu = 1024;  // bytes, of the packets: see path_mtu()
};

struct Attributes {
  ibv_qp_attr values{};
  int mask = 0;
};

Attributes to_init(const Settings& settings, const Port& port);
Attributes to_rtr(const Settings& settings, const Port& port, const GidEntry& own, const Path& path,
                  const QueuePairAddress& peer);
Attributes to_rts(const Settings& settings, const QueuePairAddress& own);

bool needs_route_header(const Port& port, const Path& path);

// Bytes of a packet between ports of these active MTUs; `wanted` 0 or a forced value. Throws Error
// when it is above one of them.
int path_mtu(int own, int peers, int wanted);
ibv_mtu mtu_code(int bytes);
int mtu_bytes(ibv_mtu code);

// "to RTR: path_mtu 4096, dest_qp_num 17, ...": all that `mask` names.
std::string to_text(const Attributes& attributes);
// What of these is likely to be refused, with the reason; empty: nothing stands out.
std::vector<std::string> suspicious(const Attributes& attributes, const Port& port);

// The largest size for which `works` says yes: tries `wanted`, then less and less, at last 0.
template <class Works>
int probe_inline(int wanted, Works works) {
  for (int size = wanted; size > 0; size = size > 16 ? size / 2 : 0) {
    if (works(size)) return size;
  }
  return works(0) ? 0 : -1;
}

}  // namespace kinet::verbs
