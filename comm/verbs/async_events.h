// What a device says of its own accord: a port went down, a queue broke.
// Thread safety: one thread.
#pragma once

#include <optional>
#include <string>

#include "comm/verbs/device.h"

namespace kinet::verbs {

struct AsyncEvent {
  enum class Scope { kNews, kQueuePair, kDevice } scope = Scope::kNews;  // what is unusable now
  uint32_t queue_pair = 0;
  std::string text;
};

class AsyncEvents {
 public:
  explicit AsyncEvents(Device& device);  // its descriptor no longer blocks
  int fd() const { return context_->async_fd; }
  std::optional<AsyncEvent> next();  // acknowledged at once

 private:
  ibv_context* context_;
};

}  // namespace kinet::verbs
