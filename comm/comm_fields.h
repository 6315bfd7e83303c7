// The fields of comm_param { ... }: the communicator's own, and a message for each transport.
// Thread safety: pure functions over the registry.
#pragma once

#include "src/prototxt/fields.h"

namespace kinet {

const MessageType& comm_fields();

}  // namespace kinet
