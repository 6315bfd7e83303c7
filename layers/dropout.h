// Dropout: in training each value is zeroed with probability p, the others are scaled by 1 / (1 -
// p), so that testing needs no scaling.
//
// Equation: y = x * m, m in {0, 1 / (1 - p)};  dx = dy * m.  In TEST: y = x, dx = dy.
// Shapes: top = bottom. May run in place.
// The mask of sample n of forward pass k is stream (kDropout, layer, k * N + n); word i decides
// value i. So it can be repeated after a resume and does not depend on the number of threads.
// Reference: Srivastava et al., JMLR 2014.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Dropout : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  std::string summary() const override;

 protected:
  bool active(const Context& context) const;  // false: identity
  void draw_mask(const Context& context);

  double ratio_ = 0.5;  // p
  int64_t samples_ = 0, values_ = 0;
  Workspace mask_;
};

}  // namespace kinet
