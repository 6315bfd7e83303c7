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

#ifndef KINET_TEST_ON_GPU
#include "cuda/emulation/control.h"
#endif

namespace kinet {

#ifdef KINET_TEST_ON_GPU

inline void choose_library() { unsetenv("KINET_CUDA_LIBRARY"); }
inline std::vector<std::string> thread_orders() { return {"of the device"}; }
inline void use_thread_order(const std::string&) {}
inline void use_lazy_streams(bool) {}
inline std::string device_reports() { return ""; }

#else

inline void choose_library() {
  setenv("KINET_CUDA_LIBRARY", "emulated", 0);  // 0: what the environment says stays
}

// Orders in which the emulation runs the threads of a kernel.
inline std::vector<std::string> thread_orders() { return {"forward", "backward", "random"}; }

inline void use_thread_order(const std::string& name) {
  using emulation::ThreadOrder;
  emulation::Options options = emulation::options();
  for (const auto order : {ThreadOrder::kForward, ThreadOrder::kBackward, ThreadOrder::kRandom}) {
    if (emulation::name_of(order) == name) options.order = order;
  }
  emulation::set_options(options);
}

// Work of a stream is done as late as CUDA allows, so that a missing wait shows.
inline void use_lazy_streams(bool lazy) {
  emulation::Options options = emulation::options();
  options.lazy_streams = lazy;
  emulation::set_options(options);
}

// As on a machine that lets nobody lock memory.
inline void refuse_locked_memory(bool refuse) {
  emulation::Options options = emulation::options();
  options.refuse_host_register = refuse;
  emulation::set_options(options);
}

// What the emulation has found since the last call, "" when nothing.
inline std::string device_reports() { return emulation::text_of(emulation::take_reports()); }

#endif

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

// Tests on the device; skipped, with the reason, where there is none.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = backend_under_test().problem();
    if (!problem.empty()) GTEST_SKIP() << problem;
    device_ = backend_under_test().open(0);
    use_thread_order(thread_orders().front());
  }
  void TearDown() override { EXPECT_EQ(device_reports(), ""); }

  std::shared_ptr<Device> device_;
};

}  // namespace kinet
