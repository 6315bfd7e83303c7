// What fields of a solver file mean together; kinds and names are checked before (validate()).
#pragma once

#include "src/prototxt/fields.h"

namespace kinet {

// Reports values that make no sense, types that do not exist, and what this version cannot do.
void check_solver(const Params& solver, Diagnostics& diagnostics);

}  // namespace kinet
