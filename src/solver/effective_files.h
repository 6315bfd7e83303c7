// The files of a run as they were used, so that `kinet train` on the saved solver file repeats the
// run: --set applied, nets in files beside it, paths absolute, seed and weights written down.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/solver/solver.h"

namespace kinet {

// What flags and the clock decided.
struct RunSettings {
  uint64_t seed = 0;
  std::vector<std::string> weights;  // files that the run began with
  std::string comment;               // lines for the head of the solver file, without '#'
};

// Name and text of each file: solver.prototxt, net.prototxt, and test_net_N.prototxt where a test
// net is of another file than the train net.
std::vector<std::pair<std::string, std::string>> effective_files(const SolverConfig& config,
                                                                 const RunSettings& settings);

}  // namespace kinet
