// Indices (or values) of the top_k largest scores, largest first. No gradient.
//
// Equal scores: the larger index first, as in Caffe; NaN comes last.
// Shapes: with axis: the bottom's, with top_k on that axis, holding indices, or with out_max_val
// the
//   values. Without axis: each sample as one row, top N x 1 x top_k of indices, or with out_max_val
//   N x 2 x top_k of indices and values (further axes of the bottom become 1).
#pragma once

#include "src/net/layer.h"

namespace kinet {

class ArgMax : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  bool can_propagate(int) const override { return false; }

 protected:
  bool out_max_val_ = false, has_axis_ = false;
  int axis_ = 0;
  int64_t top_k_ = 1;
  int64_t outer_ = 0, row_ = 0, inner_ = 0;  // outer x row x inner around the axis
};

}  // namespace kinet
