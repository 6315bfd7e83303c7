#include "comm/transport.h"

#include <chrono>

#include "src/base/check.h"

namespace kinet {

double Transport::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void check_put(const Put& put) {
  const uint64_t there = put.from == nullptr ? 0 : put.from->bytes();
  if (put.bytes == 0) return;
  if (put.from_offset > there || put.bytes > there - put.from_offset) {
    fail_runtime("a put of {} bytes at offset {} leaves its source of {} bytes", put.bytes,
                 put.from_offset, there);
  }
  if (put.to_offset > put.to.bytes || put.bytes > put.to.bytes - put.to_offset) {
    fail_runtime("a put of {} bytes at offset {} leaves its target of {} bytes", put.bytes,
                 put.to_offset, put.to.bytes);
  }
}

}  // namespace kinet
