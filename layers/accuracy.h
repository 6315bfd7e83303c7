// Share of positions whose label is among the top_k scores.
//
// A position is right when fewer than top_k other classes score at least as high as its label. So a
// tie counts against the label (a net that answers the same for all classes gets no points), and so
// does NaN.
// Shapes: bottom 0: outer x classes x inner around `axis`; bottom 1: outer * inner labels;
//   top 0: scalar; top 1 (optional): classes values, the accuracy of each class (0 where absent).
// Positions with ignore_label are left out; none left: 0. No gradient.
#pragma once

#include "layers/loss.h"
#include "src/net/layer.h"

namespace kinet {

class Accuracy : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  bool can_propagate(int) const override { return false; }
  std::string summary() const override;
  int64_t label_classes() const override { return classes_; }

 protected:
  bool is_right(const float* scores, int label) const;

  std::optional<int> ignore_label_;
  int axis_ = 1;
  int64_t top_k_ = 1;
  int64_t outer_ = 0, classes_ = 0, inner_ = 0;
  std::vector<int> labels_;
};

}  // namespace kinet
