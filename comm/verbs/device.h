// An opened RDMA device with its protection domain, and the list of what a machine has.
// Ownership: everything made on a Device is destroyed before it. Thread safety: one thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/verbs/gid.h"
#include "comm/verbs/port_choice.h"

namespace kinet::verbs {

// "open: Permission denied" for the last system error.
std::string system_error(const std::string& what, int code);

// All devices with all ports. The first call makes the library safe for fork() where the kernel
// does not do so by itself; nothing of RDMA may be called before.
std::vector<DeviceInfo> list_devices();

class Device {
 public:
  explicit Device(const Port& port);  // throws Error

  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  const ibv_device_attr& limits() const { return limits_; }

  Port read_port() const;  // as it is now
  std::vector<GidEntry> read_gids() const;

  // Bytes that memory regions hold at the moment; kept by MemoryKey.
  size_t registered_bytes = 0;

 private:
  struct Close {
    void operator()(ibv_context* c) const { ibv_close_device(c); }
    void operator()(ibv_pd* d) const { ibv_dealloc_pd(d); }
  };

  std::string name_;
  int port_;
  std::unique_ptr<ibv_context, Close> context_;
  std::unique_ptr<ibv_pd, Close> domain_;
  ibv_device_attr limits_{};
};

}  // namespace kinet::verbs
