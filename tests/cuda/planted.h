// Kernels of the families that kinet has, each in a right form and in forms with one planted fault.
// The tests of the emulation show with them that check mode finds what it should, and nothing else.
#pragma once

#include <string>
#include <vector>

#include "cuda/emulation/control.h"

namespace kinet {

struct PlantedCase {
  std::string name;  // "sgemm: first barrier missing"
  // Runs the kernel on the emulated device and gives what it computed; may be empty.
  std::vector<float> (*run)();
  // What the right form computes; empty: only the reports count.
  std::vector<float> (*expected)();
  // Any of these counts as found; empty: this form is right.
  std::vector<emulation::Fault> faults;
};

std::vector<PlantedCase> planted_gemm();
std::vector<PlantedCase> planted_layers();
std::vector<PlantedCase> planted_reductions();
std::vector<PlantedCase> planted_memory();

}  // namespace kinet
