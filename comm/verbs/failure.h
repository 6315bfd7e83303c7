// From completions that failed to one message for people.
//
// When a queue pair breaks, the request that broke it completes with the reason and all others
// after it with "flushed". On some devices even the first one says "flushed" (own link down), so
// the first failure counts, whatever its status; the rest are counted only.
// Thread safety: pure functions; no device is touched.
#pragma once

#include <infiniband/verbs.h>

#include <span>
#include <string>

#include "comm/verbs/settings.h"

namespace kinet::verbs {

// The two ends, for people.
struct LinkNames {
  int peer = 0;
  std::string own_end, peer_end;  // "rxe0 port 1, GID 1 (10.77.0.1, RoCE v2), queue pair 17"
  std::string peer_host;
  std::string port_state;  // of the own port at the time of failure
  double give_up_seconds = 0;
  int timeout = 0, retries = 0;
};

// Watches the completions of one link.
class FailureLog {
 public:
  // true: this is the first failure, the link is dead from now on.
  bool add(const ibv_wc& completion);
  bool failed() const { return failed_; }
  ibv_wc_status status() const { return status_; }
  uint64_t flushed() const { return flushed_; }  // failures after the first

 private:
  bool failed_ = false;
  ibv_wc_status status_ = IBV_WC_SUCCESS;
  uint64_t flushed_ = 0;
};

// Cause, both addresses, how long was waited, what is likely; several lines.
std::string explain(const ibv_wc& completion, const LinkNames& names);

std::string operation_name(ibv_wc_opcode opcode);
const char* status_name(ibv_wc_status status);

}  // namespace kinet::verbs
