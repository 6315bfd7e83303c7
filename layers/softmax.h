// Softmax along one axis: scores become probabilities.
//
// Equation: y_c = exp(x_c - m) / s, m = max_c x_c, s = sum_c exp(x_c - m);
//   dx_c = y_c (dy_c - sum_k dy_k y_k).
// Shapes: top = bottom; seen as outer x classes x inner around `axis` (default 1).
// Backward needs only y: may run in place.
#pragma once

#include "src/net/layer.h"

namespace kinet {

const MessageType& softmax_fields();

// The probabilities of one slab (classes x inner, inner positions side by side). max and sum
// (inner values each) receive m and s. y may equal x.
void softmax_slab(int64_t classes, int64_t inner, const float* x, float* y, float* max, float* sum);

class Softmax : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.top_data = true}; }

 protected:
  int axis_ = 1;
  int64_t outer_ = 0, classes_ = 0, inner_ = 0;
};

}  // namespace kinet
