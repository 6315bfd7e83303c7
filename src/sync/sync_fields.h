// sync_param { ... } of a solver file: which model, how many servers, and the models' constants.
#pragma once

#include "src/prototxt/fields.h"

namespace kinet {

const MessageType& sync_fields();

// Whether the workers of that model push to servers (else: all-reduce among themselves), and how
// many servers there are.
int server_count(const Params& sync_param);

}  // namespace kinet
