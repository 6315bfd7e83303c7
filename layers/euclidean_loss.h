// Half the mean squared distance, for regression.
//
// Equation: L = sum (a - b)^2 / (2 N), N samples;  da = (w / N) (a - b), db = -da.
//   w is the top's gradient (the loss weight).
// Shapes: two bottoms of the same shape but for how the axes after the first are grouped; top:
// scalar. Both bottoms receive gradients when asked.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class EuclideanLoss : public Layer {
 public:
  static LayerType describe();

  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.bottom_data = true}; }

 protected:
  int64_t samples_ = 0;
  Workspace difference_;  // temporary
};

}  // namespace kinet
