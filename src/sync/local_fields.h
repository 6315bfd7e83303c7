// The fields of sync_param of models whose workers take steps of their own: local SGD and its
// descendants, elastic averaging, sapus.
#pragma once

#include <vector>

#include "src/prototxt/fields.h"

namespace kinet {

std::vector<Field> local_fields();

}  // namespace kinet
