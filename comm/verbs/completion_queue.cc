#include "comm/verbs/completion_queue.h"

#include <fcntl.h>

#include <cerrno>

#include "comm/verbs/memory_key.h"
#include "src/base/check.h"

namespace kinet::verbs {

CompletionQueue::CompletionQueue(Device& device, int depth) {
  KINET_CHECK(depth <= device.limits().max_cqe,
              "verbs: the send and receive depths of all peers need {} completions, the device has "
              "{}\nhint: lower send_depth, receive_depth or queue_pairs",
              depth, device.limits().max_cqe);
  channel_ = ibv_create_comp_channel(device.context());
  KINET_CHECK(channel_ != nullptr, "verbs: {}", system_error("no completion channel", errno));
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  queue_ = ibv_create_cq(device.context(), depth, nullptr, channel_, 0);
  if (queue_ == nullptr) {
    const int code = errno;
    ibv_destroy_comp_channel(channel_);
    fail("{}\n(for a completion queue of {} entries)",
         registration_error(static_cast<size_t>(depth) * sizeof(ibv_wc), device.registered_bytes,
                            code, memory_lock_limit()),
         depth);
  }
}

CompletionQueue::~CompletionQueue() {
  ibv_destroy_cq(queue_);
  ibv_destroy_comp_channel(channel_);
}

bool CompletionQueue::take_event() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &queue, &context) != 0) return false;
  ibv_ack_cq_events(queue, 1);  // destroying waits for these
  return true;
}

}  // namespace kinet::verbs
