// What the tests of check mode share: the order in which the emulation runs threads, as a parameter
// of the test, and whether one of some faults was reported.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/emulation/control.h"

namespace kinet {

// Each test begins and ends with a device on which nothing has happened.
class ThreadOrders : public testing::TestWithParam<emulation::ThreadOrder> {
 protected:
  void SetUp() override {
    emulation::Options options;
    options.order = GetParam();
    emulation::set_options(options);
    emulation::reset();
  }
  void TearDown() override {
    emulation::reset();
    emulation::set_options({});
  }
};

#define KINET_IN_EVERY_ORDER(Suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(Orders, Suite,                                              \
                           testing::Values(::kinet::emulation::ThreadOrder::kForward,  \
                                           ::kinet::emulation::ThreadOrder::kBackward, \
                                           ::kinet::emulation::ThreadOrder::kRandom),  \
                           [](const auto& info) { return std::string(name_of(info.param)); })

// Expects a report of one of `faults`, and clears the device: a fault of a kernel is for good
// otherwise.
inline void expect_found(const std::string& what, const std::vector<emulation::Report>& reports,
                         const std::vector<emulation::Fault>& faults) {
  EXPECT_TRUE(std::any_of(reports.begin(), reports.end(),
                          [&](const emulation::Report& r) {
                            return std::find(faults.begin(), faults.end(), r.fault) != faults.end();
                          }))
      << what << " was not found; reported was only:\n"
      << emulation::text_of(reports);
  emulation::reset();
}

}  // namespace kinet
