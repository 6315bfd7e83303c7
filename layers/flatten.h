// Joins the axes [axis, end_axis] into one.
//
// Shapes: default N x C x H x W -> N x CHW. The top is the bottom in another shape: nothing to
// compute.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Flatten : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context&, Tensors, Tensors) override {}
  void backward(const Context&, Tensors, Tensors, const BackwardMask&) override {}

 protected:
  int axis_ = 1, end_axis_ = -1;
};

}  // namespace kinet
