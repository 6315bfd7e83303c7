// Everything of RDMA that can be tuned: comm_param { verbs { ... } }, checked.
// Reference: docs/rdma.md says when to turn which knob.
// Thread safety: plain values.
#pragma once

#include <string>
#include <vector>

#include "src/prototxt/fields.h"

namespace kinet::verbs {

struct Settings {
  std::vector<std::string> devices;  // by local rank, in turn; empty: the fastest active ones
  int port = 0;                      // 0: the first that is active
  int gid_index = -1;                // -1: by type and address
  int mtu = 0;                       // bytes; 0: the smaller active MTU of the two ports
  int queue_pairs = 1;               // to one peer; whole puts take turns
  int send_depth = 128;              // work requests of one queue pair
  int receive_depth = 256;           // receives that one peer may consume
  int inline_bytes = 128;            // asked for; what is granted may be less
  int signal_every = 32;             // work requests for each completion
  int timeout = 16;                  // 4.096 us x 2^timeout until a packet is sent again
  int retry_count = 6;
  int rnr_retry = 6;
  int min_rnr_timer = 12;  // code of the specification; 12 = 0.64 ms
  int service_level = 0;
  int traffic_class = 0;
  int hop_limit = 64;
  int max_rd_atomic = 1;
  int pkey_index = 0;
  int max_piece = 0;  // bytes of one work request; 0: what both ports can
  bool relaxed_ordering = false;
  bool use_srq = true;
  bool events = true;  // a waiting rank may sleep on the completion channel
};

const MessageType& fields();

// Throws Error with the place of a value that is out of range.
Settings read_settings(const Params& params);

// "queue_pairs 1, send_depth 128, ...": every knob.
std::string describe(const Settings& settings);

// Seconds until the hardware gives up: (retries + 1) x 4.096 us x 2^timeout.
double give_up_seconds(const Settings& settings);

}  // namespace kinet::verbs
