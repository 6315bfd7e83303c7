// The device that the CUDA tests run on. Three programs or runs come from one source:
//
//   x_test                              the emulated device, fast mode
//   x_test, KINET_CUDA_LIBRARY=checked  the emulated device, check mode (ctest: x_test_checked)
//   x_gpu_test (KINET_TEST_ON_GPU)      a real device (ctest label gpu)
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/net/device.h"
#include "tests/cuda/thread_orders.h"

namespace kinet {

inline void choose_library() {
#ifdef KINET_TEST_ON_GPU
  unsetenv("KINET_CUDA_LIBRARY");
#else
  setenv("KINET_CUDA_LIBRARY", "emulated", 0);  // 0: what the environment says stays
#endif
}

inline DeviceBackend& backend_under_test() {
  static DeviceBackend* const backend = [] {
    choose_library();
    std::string why;
    DeviceBackend* const found = find_cuda_backend(&why);
    KINET_CHECK(found != nullptr, "no CUDA back-end to test: {}", why);
    return found;
  }();
  return *backend;
}

// In check mode, where everything takes some ten times as long.
inline bool check_mode() {
  const char* library = std::getenv("KINET_CUDA_LIBRARY");
  return library != nullptr && std::string(library) == "checked";
}

// Why nothing can be tested on a device here, or "".
inline std::string no_device() { return backend_under_test().problem(); }

// Tests on the device; skipped, with the reason, where there is none.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_device(); !why.empty()) GTEST_SKIP() << why;
    device_ = backend_under_test().open(0);
    use_thread_order(thread_orders().front());
  }
  void TearDown() override { EXPECT_EQ(device_reports(), ""); }

  std::shared_ptr<Device> device_;
};

}  // namespace kinet
