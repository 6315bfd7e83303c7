// Gives the values another shape.
//
// Shapes: axes [axis, axis + num_axes) of the bottom (default all) are replaced by shape.dim, where
// 0 copies the bottom's size at that place and one -1 takes what is left over.
// The top is the bottom in another shape: nothing to compute.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Reshape : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context&, Tensors, Tensors) override {}
  void backward(const Context&, Tensors, Tensors, const BackwardMask&) override {}

 protected:
  void infer(const Shape& bottom, Shape& top, int axis) const;

  std::vector<int64_t> dims_;
  int axis_ = 0, num_axes_ = -1;
};

}  // namespace kinet
