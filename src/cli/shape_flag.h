// --shape C,H,W: the images' shape when the data is not at hand, for commands that need no more of
// the data than that.
// Thread safety: pure functions over the registries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/prototxt/node.h"
#include "src/tensor/shape.h"

namespace CLI {
class App;
}

namespace kinet {

void add_shape_flag(CLI::App& app, std::vector<int64_t>& shape, const std::string& help);

// The shape to try, found in the data layer's fields: "--shape 3,224,224 is what the data layer's
// crop_size asks for (3 channels are a guess)".
std::string shape_hint(const ParamNode& net);

// Shape of the images of the TEST net, batch first: as --shape says, else what the data layer
// brings. Throws Error with the shape to try when the data cannot be opened. Not to be asked of a
// net with an Input layer, which has a shape of its own (needs_input_shape).
Shape images_shape(const ParamNode& net, const std::vector<int64_t>& shape);

// The same net with a DummyData layer for every layer that reads a data set: noise of that shape
// (made once) and labels 0, with the names and rules of the layer it stands for, and its batch size
// unless `batch` gives another.
ParamNode with_dummy_data(const ParamNode& net, const std::vector<int64_t>& shape,
                          int64_t batch = 0);

}  // namespace kinet
