// Launches of the layers' and update rules' own kernels, right and wrong, for the tests of check
// mode.
#pragma once

#include <string>
#include <vector>

#include "cuda/emulation/control.h"

namespace kinet {

struct FaultyLaunch {
  std::string name;
  void (*launch)(bool wrong);
  std::vector<emulation::Fault> faults;  // any of these counts as found
};

std::vector<FaultyLaunch> faulty_launches();

}  // namespace kinet
