// Rectifier with a learnt slope.
//
// Equation: y = max(x, 0) + a_c min(x, 0), one slope for each channel c (axis 1) or one for all.
//   dx = dy where x > 0, a_c dy elsewhere;  da_c += sum over x_c <= 0 of dy x.
// Shapes: top = bottom, N x C x ...; blob 0: C, or a scalar with channel_shared.
// Backward needs x (a learnt slope may turn negative, so y does not tell the sign of x).
// Reference: He et al., "Delving deep into rectifiers", ICCV 2015.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Prelu : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.bottom_data = true}; }
  std::string summary() const override { return shared_ ? "one slope" : ""; }

 protected:
  void backward_slopes(const Context& context, const Tensor& top, const Tensor& bottom);

  bool shared_ = false;
  int64_t samples_ = 0, channels_ = 0, inner_ = 0;
};

}  // namespace kinet
