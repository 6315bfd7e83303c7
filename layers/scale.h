// Scale: multiplies by a vector repeated over the other axes, and may add a second one.
//
// Equation: y = x * broadcast(s) + broadcast(b).
//   dx = dy * broadcast(s);  ds += sums of dy * x;  db += sums of dy, over the repeated axes.
// Shapes: top as bottom; s and b have `num_axes` dimensions of the bottom from `axis` on. With a
//   second bottom, s is that bottom and its shape decides.
#pragma once

#include <vector>

#include "src/math/broadcast.h"
#include "src/net/layer.h"

namespace kinet {

class ScaleLayer : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.bottom_data = true}; }
  double macs() const override;

 protected:
  // For subclasses that run on another device.
  Broadcast broadcast_;
  bool learned_ = true;  // s is a parameter, not the second bottom
  bool bias_term_ = false;

 private:
  int axis_ = 1;
  Shape scale_shape_;
  std::vector<double> sums_;
};

}  // namespace kinet
