// What the ranks of a run compare before they train together: were one of these different, they
// would train different nets, or the same one on different data, and nobody would notice.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/solver/solver.h"

namespace kinet {

// In the order of comparison: build, seed, every line of the solver file as it is used, the nets,
// the data sets, and the weights (and iteration) that the run begins with.
std::vector<std::pair<std::string, std::string>> run_fingerprint(const SolverConfig& config,
                                                                 Solver& solver);

}  // namespace kinet
