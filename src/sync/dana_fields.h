// The fields of sync_param that the DANA family and its baselines read (docs/rivals_dana.md).
#pragma once

#include <vector>

#include "src/prototxt/fields.h"

namespace kinet {

std::vector<Field> dana_fields();

// dc_lambda, or `standard` where it is not given. Throws Error at its place in the file.
double delay_lambda(const Params& sync_param, double standard);

}  // namespace kinet
