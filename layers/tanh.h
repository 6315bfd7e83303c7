// Hyperbolic tangent.
//
// Equation: y = tanh(x);  dx = dy * (1 - y^2).
// Shapes: top = bottom. Backward needs only y: may run in place.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class TanH : public Layer {
 public:
  static LayerType describe();

  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) override {
    return bottoms;
  }
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.top_data = true}; }
};

}  // namespace kinet
