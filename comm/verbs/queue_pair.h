// A reliable queue pair (RC), owned: made in RESET, moved by attributes built in attributes.h.
// REQUIRES: destroyed before its completion queue, receive queue and device.
// Thread safety: one thread.
#pragma once

#include "comm/verbs/attributes.h"
#include "comm/verbs/completion_queue.h"
#include "comm/verbs/receive_queue.h"

namespace kinet::verbs {

class QueuePair {
 public:
  // The inline limit is probed downwards from settings.inline_bytes. Throws Error with all that
  // was asked for.
  QueuePair(Device& device, CompletionQueue& completions, ReceiveQueue& receives,
            const Settings& settings);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // Throws Error: every attribute of the step, and which of them are suspicious.
  void modify(const Attributes& attributes, const Port& port);
  void reset();
  void forbid_writes();  // of the peer into this process; what is under way here still leaves

  ibv_qp* get() const { return pair_; }
  uint32_t number() const { return pair_->qp_num; }
  size_t inline_bytes() const { return inline_bytes_; }
  bool post(ibv_send_wr& request) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(pair_, &request, &bad) == 0;
  }

 private:
  bool create(Device& device, ibv_qp_init_attr init, int inline_bytes);

  ibv_qp* pair_ = nullptr;
  size_t inline_bytes_ = 0;
};

}  // namespace kinet::verbs
