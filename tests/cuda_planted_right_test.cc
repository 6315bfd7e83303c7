// The right forms of the planted-fault kernels in fast mode: each order of threads gives the
// numbers of the plain C++ beside them.
//
// ctest: labels=unit,core
// ctest: kernels=planted_gemm,planted_layers,planted_reductions,planted_memory
#include <gtest/gtest.h>

#include "cuda/emulation/control.h"
#include "tests/cuda/planted.h"

namespace kinet {
namespace {

using emulation::ThreadOrder;

void expect_right(const std::vector<PlantedCase>& family) {
  for (const PlantedCase& c : family) {
    if (!c.faults.empty()) continue;
    SCOPED_TRACE(c.name);
    const std::vector<float> got = c.run();
    const std::vector<float> expected = c.expected();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6) << i;
  }
}

TEST(PlantedKernels, RightFormsInEachOrder) {
  for (ThreadOrder order : {ThreadOrder::kForward, ThreadOrder::kBackward, ThreadOrder::kRandom}) {
    SCOPED_TRACE(name_of(order));
    emulation::reset();
    emulation::Options options;
    options.order = order;
    emulation::set_options(options);
    expect_right(planted_gemm());
    expect_right(planted_layers());
    expect_right(planted_reductions());
    expect_right(planted_memory());
    EXPECT_EQ(emulation::text_of(emulation::take_reports()), "");
    EXPECT_EQ(emulation::counters().accesses, 0);  // fast mode: nothing is looked at
  }
  emulation::set_options({});
}

}  // namespace
}  // namespace kinet
