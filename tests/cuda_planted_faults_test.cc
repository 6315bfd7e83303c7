// The checker of the CUDA emulation: every planted fault is found, in each order of threads, and no
// right kernel is reported.
//
// ctest: labels=unit,cuda_check checked
// ctest: kernels=planted_gemm,planted_layers,planted_reductions,planted_memory
#include "cuda/emulation/runtime_api.h"
#include "tests/cuda/planted.h"
#include "tests/cuda_faults.h"

namespace kinet {
namespace {

std::vector<PlantedCase> all_cases() {
  std::vector<PlantedCase> all;
  for (const auto& family :
       {planted_gemm(), planted_layers(), planted_reductions(), planted_memory()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

using PlantedFaults = ThreadOrders;

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
    c.run();
    const std::vector<emulation::Report> reports = emulation::take_reports();
    expect_found(c.name, reports, c.faults);
    for (const emulation::Report& r : reports) {
      EXPECT_NE(r.place.find(".cu:"), std::string::npos) << emulation::text_of({r});
    }
  }
}

KINET_IN_EVERY_ORDER(PlantedFaults);

}  // namespace
}  // namespace kinet
