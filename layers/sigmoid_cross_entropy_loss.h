// Logistic loss of scores x against targets t in [0, 1], each value a yes-or-no question.
//
// Equation: L = (1 / D) sum of max(x, 0) - x t + log(1 + e^-|x|), which is
//   -t log p - (1 - t) log(1 - p) with p = sigmoid(x), without overflow;  dx = (w / D) (p - t).
//   Where t equals ignore_label: no loss, dx = 0. w is the top's gradient.
// Shapes: two bottoms of equal count; top: scalar.
// D by loss_param.normalization, default BATCH_SIZE: samples.
#pragma once

#include "layers/loss.h"
#include "src/net/layer.h"

namespace kinet {

class SigmoidCrossEntropyLoss : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.bottom_data = true}; }
  std::string summary() const override { return options_.summary(); }

 protected:
  bool ignored(float target) const {
    return options_.ignore_label && target == static_cast<float>(*options_.ignore_label);
  }

  LossOptions options_;
  int64_t samples_ = 0;
  double divisor_ = 1;
};

}  // namespace kinet
