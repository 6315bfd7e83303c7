// Rectified linear unit.
//
// Equation: y = max(x, 0) + slope * min(x, 0);  dx = dy where x > 0, slope * dy elsewhere.
// Shapes: top = bottom. The sign of x is read from y, so the layer may run in place; only a
// negative slope hides it, and then backward reads x. Reference: Nair and Hinton, ICML 2010; leaky:
// Maas et al., ICML 2013.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Relu : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) override {
    return bottoms;
  }
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override;

 protected:
  float slope_ = 0;
};

}  // namespace kinet
