// How long bytes are under way: the network of the sim transport.
//
// Equation, a transmission of b bytes that finds both links idle:
//
//   t(b) = latency + message_overhead + b / bandwidth
//
// Every node has one link (NIC), full duplex: what leaves and what arrives share nothing. Each
// direction carries one transmission at a time, in the order in which they come, for
// overhead + b / bandwidth. A transmission flows through: its first byte reaches the receiver's
// link one latency after it left, and the receiver's link may still be busy. From that follow
//   stream   one sender, m transmissions:      latency + m (overhead + b / bandwidth)
//   incast   n senders, one receiver:          latency + n (overhead + b / bandwidth)
// Ranks of one node share its link; between themselves they use the node's own wire, of which
// every rank has one. Switches are ideal: they hold any number of bytes and lose none.
//
// Units here are seconds and bytes; in files (link_model_param) microseconds and Gbit/s.
// Thread safety: none.
// Reference: the alpha-beta model (Hockney, 1994), with links that can be busy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/prototxt/fields.h"

namespace kinet {

struct Wire {
  double latency = 0;    // seconds, one way
  double bandwidth = 0;  // bytes a second, in each direction; 0: without limit
  double overhead = 0;   // seconds that a transmission keeps the link busy beside its bytes
  double cost(uint64_t bytes) const;  // how long it keeps a link busy
};

class LinkModel {
 public:
  struct Parameters {
    Wire network, node;      // between nodes, and between ranks of one node
    int ranks_per_node = 1;  // ranks 0 to n - 1 are the first node, and so on
    std::string describe() const;
  };
  static const MessageType& fields();  // link_model_param
  static Parameters parameters(const Params& params);

  LinkModel(const Parameters& parameters, int size);

  const Wire& wire(Rank from, Rank to) const;
  double transfer_time(Rank from, Rank to, uint64_t bytes) const;  // t(b) above

  // A transmission is handed to the sender's link at `now`: when its first byte leaves.
  double leave(Rank from, Rank to, uint64_t bytes, double now);
  // Its first byte reaches the receiver's link at `now`: when its last byte is there.
  double arrive(Rank from, Rank to, uint64_t bytes, double now);

 private:
  struct Port {
    double out_free = 0, in_free = 0;  // from when on the link carries nothing
  };
  bool same_node(Rank a, Rank b) const;
  Port& port(Rank rank, bool inside_node);

  Parameters parameters_;
  std::vector<Port> nics_;   // by node
  std::vector<Port> wires_;  // by rank, inside its node
};

}  // namespace kinet
