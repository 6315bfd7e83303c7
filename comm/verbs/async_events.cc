#include "comm/verbs/async_events.h"

#include <fcntl.h>

namespace kinet::verbs {

AsyncEvents::AsyncEvents(Device& device) : context_(device.context()) {
  fcntl(fd(), F_SETFL, fcntl(fd(), F_GETFL) | O_NONBLOCK);
}

std::optional<AsyncEvent> AsyncEvents::next() {
  ibv_async_event raw{};
  if (ibv_get_async_event(context_, &raw) != 0) return std::nullopt;
  AsyncEvent event;
  event.text = ibv_event_type_str(raw.event_type);
  switch (raw.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      event.scope = AsyncEvent::Scope::kQueuePair;
      event.queue_pair = raw.element.qp->qp_num;
      break;
    case IBV_EVENT_CQ_ERR:  // completions were lost: nothing can be trusted any more
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
      event.scope = AsyncEvent::Scope::kDevice;
      break;
    default:
      break;
  }
  ibv_ack_async_event(&raw);
  return event;
}

}  // namespace kinet::verbs
