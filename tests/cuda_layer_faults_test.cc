// Check mode on the kernels of the layers and update rules: a wrong launch of each family is found,
// in every order of threads, and the right one passes.
//
// ctest: labels=unit,cuda_check kernels=faulty_launches checked
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/emulation/control.h"
#include "tests/cuda/faulty_launches.h"

namespace kinet {
namespace {

using emulation::Report;
using emulation::ThreadOrder;

class LayerFaults : public testing::TestWithParam<ThreadOrder> {
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

TEST_P(LayerFaults, RightLaunchesPass) {
  for (const FaultyLaunch& f : faulty_launches()) {
    f.launch(false);
    EXPECT_EQ(emulation::text_of(emulation::take_reports()), "") << f.name;
  }
}

TEST_P(LayerFaults, WrongLaunchesAreFound) {
  for (const FaultyLaunch& f : faulty_launches()) {
    f.launch(true);
    const std::vector<Report> reports = emulation::take_reports();
    EXPECT_TRUE(std::any_of(reports.begin(), reports.end(),
                            [&](const Report& r) {
                              return std::find(f.faults.begin(), f.faults.end(), r.fault) !=
                                     f.faults.end();
                            }))
        << f.name << ": reported was only:\n"
        << emulation::text_of(reports);
    emulation::reset();  // a fault of a kernel is for good otherwise
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, LayerFaults,
                         testing::Values(ThreadOrder::kForward, ThreadOrder::kBackward,
                                         ThreadOrder::kRandom),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace kinet
