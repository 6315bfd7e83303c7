// Cuts the bottom into tops along one axis.
//
// Shapes: tops differ from the bottom in `axis` (default 1) only; they begin at 0 and at each
// slice_point, or are of equal size when there are none.
// Backward copies the top gradients to their places; a top without a gradient gives zeros.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Slice : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;

 protected:
  std::vector<int64_t> bounds(const Shape& bottom) const;

  int axis_ = 1;
  std::vector<int64_t> points_;
  int64_t outer_ = 0, row_ = 0;  // the bottom is outer_ rows of row_ values
  std::vector<int64_t> start_;   // where each top begins in a row; one more for the end
};

}  // namespace kinet
