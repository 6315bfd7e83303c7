#include "comm/verbs/queue_pair.h"

#include <fmt/format.h>

#include <cerrno>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet::verbs {

QueuePair::QueuePair(Device& device, CompletionQueue& completions, ReceiveQueue& receives,
                     const Settings& settings) {
  ibv_qp_init_attr init{};
  init.send_cq = completions.get();
  init.recv_cq = completions.get();
  init.srq = receives.shared();
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = static_cast<uint32_t>(settings.send_depth);
  init.cap.max_send_sge = 1;
  init.cap.max_recv_wr = receives.shared() != nullptr ? 0 : static_cast<uint32_t>(receives.slots());
  init.cap.max_recv_sge = receives.shared() != nullptr ? 0 : 1;
  int code = 0;
  probe_inline(settings.inline_bytes, [&](int size) {
    const bool works = create(device, init, size);
    code = errno;
    return works;
  });
  KINET_CHECK(pair_ != nullptr,
              "verbs: {}\n  max_send_wr {} (device: {}), max_recv_wr {}, inline down to 0\nhint: "
              "lower send_depth or receive_depth; locked memory may be limited (ulimit -l)",
              system_error("no queue pair", code), init.cap.max_send_wr, device.limits().max_qp_wr,
              init.cap.max_recv_wr);
}

QueuePair::~QueuePair() { ibv_destroy_qp(pair_); }

bool QueuePair::create(Device& device, ibv_qp_init_attr init, int inline_bytes) {
  init.cap.max_inline_data = static_cast<uint32_t>(inline_bytes);
  pair_ = ibv_create_qp(device.domain(), &init);
  if (pair_ == nullptr) return false;
  inline_bytes_ = init.cap.max_inline_data;  // what was granted
  return true;
}

void QueuePair::modify(const Attributes& attributes, const Port& port) {
  Attributes copy = attributes;
  const int code = ibv_modify_qp(pair_, &copy.values, copy.mask);
  if (code == 0) return;
  std::vector<std::string> hints = suspicious(attributes, port);
  if (code == ENETUNREACH || code == EHOSTUNREACH) {
    hints.push_back("no route from the own address to dgid: is the link up, the subnet the same?");
  }
  fail_runtime("verbs: queue pair {} of {} port {} cannot go {}\n  {}\n  suspicious: {}", number(),
               port.device, port.number, to_text(attributes), system_error("the device says", code),
               hints.empty() ? "nothing stands out" : join(hints, "; "));
}

void QueuePair::reset() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  const int code = ibv_modify_qp(pair_, &attributes, IBV_QP_STATE);
  if (code != 0) fail_runtime("verbs: {}", system_error("a queue pair cannot be reset", code));
}

void QueuePair::forbid_writes() {
  ibv_qp_attr attributes{};
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE;
  ibv_modify_qp(pair_, &attributes, IBV_QP_ACCESS_FLAGS);
}

}  // namespace kinet::verbs
