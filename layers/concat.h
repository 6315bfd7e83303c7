// Joins bottoms along one axis.
//
// Shapes: bottoms agree in all axes but `axis` (default 1), whose sizes add up.
// Backward copies the parts of the top gradient back.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Concat : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;

 protected:
  int axis_ = 1;
  int64_t outer_ = 0, row_ = 0;  // the top is outer_ rows of row_ values
  std::vector<int64_t> part_;    // values of each bottom in a row
  std::vector<int64_t> start_;   // where they begin
};

}  // namespace kinet
