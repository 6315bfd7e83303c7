// Exponential linear unit.
//
// Equation: y = x for x > 0, alpha (e^x - 1) elsewhere;  dx = dy for x > 0, dy (y + alpha)
// elsewhere. Shapes: top = bottom. The sign of x is read from y unless alpha < 0, which hides it.
// Reference: Clevert, Unterthiner, Hochreiter, ICLR 2016.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Elu : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) override {
    return bottoms;
  }
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.bottom_data = alpha_ < 0, .top_data = true}; }

 protected:
  float alpha_ = 1;
};

}  // namespace kinet
