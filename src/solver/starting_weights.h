// Which .caffemodel files a run starts from.
#pragma once

#include <string>
#include <vector>

#include "src/solver/solver.h"

namespace kinet {

// `given` ("a,b" each, as flags have it), or what the solver file's `weights` name. Throws Error
// for an empty name.
std::vector<std::string> starting_weights(const SolverConfig& config,
                                          const std::vector<std::string>& given);

}  // namespace kinet
