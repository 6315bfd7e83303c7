// What has to be equal in all ranks of a training run, in an order in which the first difference
// means most to a person: solver fields, nets layer by layer, weights and data files.
// Thread safety: pure functions, but for reading files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/solver/solver.h"

namespace kinet {

using Fingerprint = std::vector<std::pair<std::string, std::string>>;

// A line of a file is an item, so that the first difference shows both lines. Files are compared by
// their content, however they are reached: small ones and the heads of large ones by a hash of
// their bytes, data sets by their size.
Fingerprint run_fingerprint(const SolverConfig& config, const SolverOptions& options);

}  // namespace kinet
