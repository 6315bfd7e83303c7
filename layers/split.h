// Gives one bottom to several readers.
//
// Equation: y_i = x;  dx = sum_i dy_i.
// Shapes: tops = bottom. The tops' data is the bottom's data; only the gradients are their own. A
// top without a gradient (its reader passes none back) counts nothing.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Split : public Layer {
 public:
  static LayerType describe();

  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) override {
    return std::vector<Shape>(top_count(), bottoms[0]);
  }
  void forward(const Context&, Tensors, Tensors) override {}
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
};

}  // namespace kinet
