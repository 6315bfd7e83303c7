#include "comm/verbs/memory_key.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>

#include "src/base/check.h"

namespace kinet::verbs {
namespace {

std::string size_text(uint64_t bytes) {
  if (bytes >= 10U << 20) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 10U << 10) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} bytes", bytes);
}

}  // namespace

uint64_t memory_lock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return ~0ULL;
  return limit.rlim_cur;
}

std::string registration_error(size_t bytes, size_t registered, int code, uint64_t limit) {
  std::string out =
      system_error(fmt::format("verbs: cannot register {} for RDMA (registered so far: {})",
                               size_text(bytes), size_text(registered)),
                   code);
  if (code != ENOMEM && code != EPERM) return out;
  if (limit == ~0ULL) {
    return out + "\nhint: locked memory is not limited here (ulimit -l); the machine has no more";
  }
  return out + fmt::format(
                   "\nhint: locked memory is limited to {} (ulimit -l); raise it: 'ulimit -l "
                   "unlimited', memlock in /etc/security/limits.d, LimitMEMLOCK=infinity of a "
                   "service, --ulimit memlock=-1 of a container",
                   size_text(limit));
}

MemoryKey::MemoryKey(Device& device, void* data, size_t bytes, bool relaxed_ordering)
    : device_(device), bytes_(bytes) {
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (relaxed_ordering) access |= IBV_ACCESS_RELAXED_ORDERING;
  region_ = ibv_reg_mr(device.domain(), data, bytes, access);
  if (region_ == nullptr) {
    const int code = errno;
    fail("{}", registration_error(bytes, device.registered_bytes, code, memory_lock_limit()));
  }
  device_.registered_bytes += bytes_;
}

MemoryKey::~MemoryKey() {
  ibv_dereg_mr(region_);
  device_.registered_bytes -= bytes_;
}

}  // namespace kinet::verbs
