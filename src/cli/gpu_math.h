// gpu_math of a whole net: what a GPU multiplies with (layers/gpu_math_field.h).
#pragma once

#include <string>

#include "src/prototxt/node.h"

namespace CLI {
class App;
}

namespace kinet {

// --gpu-math FLOAT32, TF32 or BF16; "": as the file says.
void add_gpu_math_flag(CLI::App& app, std::string& math);

// Writes gpu_math into every layer of the net that has the field; "" changes nothing.
void set_gpu_math(ParamNode& net, const std::string& math);

}  // namespace kinet
