// Bias: adds a vector repeated over the other axes.
//
// Equation: y = x + broadcast(b).  dx = dy;  db += sums of dy over the repeated axes.
// Shapes: top as bottom; b has `num_axes` dimensions of the bottom from `axis` on. With a second
//   bottom, b is that bottom and its shape decides.
#pragma once

#include <vector>

#include "src/math/broadcast.h"
#include "src/net/layer.h"

namespace kinet {

class BiasLayer : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;

 protected:
  // For subclasses that run on another device.
  Broadcast broadcast_;
  bool learned_ = true;  // b is a parameter, not the second bottom

 private:
  int axis_ = 1;
  Shape bias_shape_;
  std::vector<double> sums_;
};

}  // namespace kinet
