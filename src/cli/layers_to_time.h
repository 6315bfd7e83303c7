// The layers that `kinet bench layers` measures: those of well-known nets that cost most, and one
// of each kind that moves memory only.
#pragma once

#include <string>
#include <vector>

#include "src/tensor/shape.h"

namespace kinet {

struct LayerToTime {
  std::string name;            // "alexnet_conv2"
  std::string text;            // the layer without name, bottoms and tops
  std::vector<Shape> bottoms;  // of one image each: without the batch
  bool labels = false;         // the last bottom holds classes
  bool is_loss = false;        // its top is a loss
};

std::vector<LayerToTime> layers_to_time();

}  // namespace kinet
