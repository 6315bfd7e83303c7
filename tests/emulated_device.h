// The CUDA back-end whose kernels run on the CPU, for tests of what is above the kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "src/base/check.h"
#include "src/net/device.h"

namespace kinet {

// REQUIRES: called before anything else in the process opens the back-end.
inline DeviceBackend& emulated_backend() {
  setenv("KINET_CUDA_LIBRARY", "emulated", 1);
  std::string why;
  DeviceBackend* backend = find_cuda_backend(&why);
  if (backend == nullptr) fail_runtime("the emulated back-end does not open: {}", why);
  return *backend;
}

inline std::shared_ptr<Device> emulated_device() { return emulated_backend().open(0); }

}  // namespace kinet
