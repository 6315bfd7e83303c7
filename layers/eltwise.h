// Joins bottoms of one shape value by value.
//
// Equation: SUM  y = sum_i c_i x_i,      dx_i = c_i dy
//           PROD y = prod_i x_i,         dx_i = dy * prod_{j != i} x_j
//           MAX  y = max_i x_i,          dx_i = dy where x_i was the (first) maximum, else 0
// Shapes: top = every bottom. MAX keeps the index of the winner from forward to backward.
// stable_prod_grad (default): the product of the others is multiplied out; otherwise it is y / x_i,
// cheaper for many bottoms and undefined at x_i = 0.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Eltwise : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override;
  std::string summary() const override;

 protected:
  enum class Operation { kProd, kSum, kMax };

  Operation operation_ = Operation::kSum;
  bool stable_ = true;
  std::vector<float> coeffs_;  // one for each bottom
  Workspace winner_;           // MAX: index of the bottom, as a float
};

}  // namespace kinet
