// Softmax followed by the multinomial logistic loss, in one step.
//
// Equation: L = (1 / D) sum over positions of -log p_label, log p_c = x_c - m - log s (never the
//   logarithm of a probability that has been rounded to 0: the loss of a hopeless position is its
//   true value and agrees with the gradient, which has no floor either).
//   dx_c = (w / D) (p_c - [c = label]); 0 at positions with ignore_label. w is the top's gradient.
// Shapes: bottom 0: outer x classes x inner around `axis`; bottom 1: outer * inner labels;
//   top 0: scalar; top 1 (optional): the probabilities, shaped like bottom 0.
// D by loss_param.normalization, default VALID: positions not ignored.
// Parent: layers/softmax.h
#pragma once

#include "layers/loss.h"
#include "src/net/layer.h"

namespace kinet {

class SoftmaxWithLoss : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  std::string summary() const override { return options_.summary(); }
  int64_t label_classes() const override { return classes_; }

 protected:
  double sample_loss(int64_t sample, const float* x, const float* max, const float* sum) const;

  LossOptions options_;
  int axis_ = 1;
  int64_t outer_ = 0, classes_ = 0, inner_ = 0;
  double divisor_ = 1;
  Workspace prob_;
  std::vector<int> labels_;  // of the last forward
  std::vector<double>
      losses_;  // one sum for each outer index: the total does not depend on threads
};

}  // namespace kinet
