// Weights for use: unlike training, where a net may begin with a part of its layers, a net that is
// scored or asked needs all of them.
// Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "src/net/net.h"

namespace kinet {

// Copies the files in order, later ones win. Returns a line for each: "loaded 4 of 4 layers from".
// Throws Error naming the layers that no file has.
std::vector<std::string> load_all_weights(const std::vector<std::string>& files, Net& net);

}  // namespace kinet
