// The checker of the CUDA emulation: every planted fault is found, in each order of threads, and no
// right kernel is reported.
//
// ctest: labels=unit,cuda_check checked
// ctest: kernels=planted_gemm,planted_layers,planted_reductions,planted_memory
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "cuda/emulation/control.h"
#include "cuda/emulation/runtime_api.h"
#include "tests/cuda/planted.h"

namespace kinet {
namespace {

using emulation::Fault;
using emulation::Report;
using emulation::ThreadOrder;

std::vector<PlantedCase> all_cases() {
  std::vector<PlantedCase> all;
  for (const auto& family :
       {planted_gemm(), planted_layers(), planted_reductions(), planted_memory()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

class PlantedFaults : public testing::TestWithParam<ThreadOrder> {
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

TEST_P(PlantedFaults, RightKernelsPass) {
  for (const PlantedCase& c : all_cases()) {
    if (!c.faults.empty()) continue;
    SCOPED_TRACE(c.name);
    const std::vector<float> got = c.run();
    EXPECT_EQ(emulation::text_of(emulation::take_reports()), "");
    const std::vector<float> expected = c.expected();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_P(PlantedFaults, EachFaultIsFound) {
  for (const PlantedCase& c : all_cases()) {
    if (c.faults.empty()) continue;
    SCOPED_TRACE(c.name);
    c.run();
    const std::vector<Report> reports = emulation::take_reports();
    EXPECT_TRUE(std::any_of(reports.begin(), reports.end(),
                            [&](const Report& r) {
                              return std::find(c.faults.begin(), c.faults.end(), r.fault) !=
                                     c.faults.end();
                            }))
        << "not found; reported was only:\n"
        << emulation::text_of(reports);
    for (const Report& r : reports) {
      EXPECT_NE(r.place.find(".cu:"), std::string::npos) << emulation::text_of({r});
    }
    emulation::reset();  // a fault of a kernel is for good otherwise
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, PlantedFaults,
                         testing::Values(ThreadOrder::kForward, ThreadOrder::kBackward,
                                         ThreadOrder::kRandom),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace kinet
