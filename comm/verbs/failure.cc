#include "comm/verbs/failure.h"

#include <fmt/format.h>

namespace kinet::verbs {
namespace {

bool down(const LinkNames& names) {
  return !names.port_state.empty() && names.port_state != "ACTIVE";
}

std::string cause(const ibv_wc& completion, const LinkNames& names) {
  if (down(names)) return fmt::format("the own port is {}", names.port_state);
  switch (completion.status) {
    case IBV_WC_RETRY_EXC_ERR:
      return fmt::format("no answer within {:.3g} s ({} tries, timeout {})", names.give_up_seconds,
                         names.retries + 1, names.timeout);
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer had no receive posted: an internal error of the credits, not a dead peer";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer refused the access: the region was given up there, or never was";
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return "the peer's device could not do the request";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair broke";
    default:
      return "the own device could not do the request";
  }
}

std::string likely(const ibv_wc& completion, const LinkNames& names) {
  if (down(names)) return "a pulled cable, or the network interface was taken down";
  switch (completion.status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the process there has ended; or a GID that does not lead there (gid_index), an MTU "
             "that a switch does not let through (mtu), a firewall on UDP port 4791, a pause frame "
             "storm";
    case IBV_WC_REM_INV_REQ_ERR:
      return "path MTUs that differ, or a message larger than its receive";
    default:
      return "the process there has ended, or the link went down";
  }
}

}  // namespace

const char* status_name(ibv_wc_status status) { return ibv_wc_status_str(status); }

std::string operation_name(ibv_wc_opcode opcode) {
  switch (opcode) {
    case IBV_WC_SEND:
      return "a message";
    case IBV_WC_RDMA_WRITE:
      return "a put";
    case IBV_WC_RECV:
    case IBV_WC_RECV_RDMA_WITH_IMM:
      return "a receive";
    default:
      return "a request";
  }
}

bool FailureLog::add(const ibv_wc& completion) {
  if (failed_) {
    ++flushed_;
    return false;
  }
  failed_ = true;
  status_ = completion.status;
  return true;
}

std::string explain(const ibv_wc& completion, const LinkNames& names) {
  return fmt::format(
      "rank {} on {}: {} ({}, status {})\n  own end: {}\n  its end: {}\n  likely: {}", names.peer,
      names.peer_host, cause(completion, names), status_name(completion.status),
      static_cast<int>(completion.status), names.own_end, names.peer_end,
      likely(completion, names));
}

}  // namespace kinet::verbs
