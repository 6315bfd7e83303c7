// Tops that the program fills: a deployed net's input.
//
// Shapes: one `shape` for all tops or one for each. Forward leaves the tops as they are.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Input : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>&, WorkspacePlan&) override { return shapes_; }
  void forward(const Context&, Tensors, Tensors) override {}
  bool can_propagate(int) const override { return false; }

 protected:
  std::vector<Shape> shapes_;
};

}  // namespace kinet
