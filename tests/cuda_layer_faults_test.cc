// Check mode on the kernels of the layers and update rules: a wrong launch of each family is found,
// in every order of threads, and the right one passes.
//
// ctest: labels=unit,cuda_check kernels=faulty_launches checked
#include "tests/cuda/faulty_launches.h"
#include "tests/cuda_faults.h"

namespace kinet {
namespace {

using LayerFaults = ThreadOrders;

TEST_P(LayerFaults, RightLaunchesPass) {
  for (const FaultyLaunch& f : faulty_launches()) {
    f.launch(false);
    EXPECT_EQ(emulation::text_of(emulation::take_reports()), "") << f.name;
  }
}

TEST_P(LayerFaults, WrongLaunchesAreFound) {
  for (const FaultyLaunch& f : faulty_launches()) {
    f.launch(true);
    expect_found(f.name, emulation::take_reports(), f.faults);
  }
}

KINET_IN_EVERY_ORDER(LayerFaults);

}  // namespace
}  // namespace kinet
