// `--set key=value`: fields given on the command line, laid over a solver file.
#pragma once

#include <string>

#include "src/prototxt/fields.h"

namespace kinet {

// Replaces the field that `assignment` names: "base_lr=0.02", "early_stop_param.patience=3",
// "stepvalue=100,200" (a repeated field: all its values), "type=Adam" (strings need no quotes).
// What is wrong goes to `diagnostics`; the value's kind is checked later with the whole file.
void apply_override(const std::string& assignment, const MessageType& type, ParamNode& root,
                    Diagnostics& diagnostics);

}  // namespace kinet
