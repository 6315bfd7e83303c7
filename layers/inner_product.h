// InnerProduct: a fully connected layer.
//
// Equation: y = x W' + b, with x as a matrix of M rows (axes before `axis`) by K columns (the
// rest).
//   dx = dy W;  dW += dy' x;  db += column sums of dy.
// Shapes: bottom d0 x ... x dn; top: the first `axis` dimensions, then num_output;
//   weights num_output x K, or K x num_output with transpose; bias num_output.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class InnerProductLayer : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.bottom_data = true}; }
  double macs() const override { return static_cast<double>(rows_) * inputs_ * outputs_; }

 protected:
  // For subclasses that run on another device: M, K, N and the modes.
  int64_t rows_ = 0, inputs_ = 0, outputs_ = 0;
  bool bias_term_ = true, transpose_ = false;

 private:
  int axis_ = 1;
};

}  // namespace kinet
