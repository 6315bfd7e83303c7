// Reads its bottoms so that they are not reported as unused; passes back zero gradients.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class Silence : public Layer {
 public:
  static LayerType describe();

  std::vector<Shape> reshape(const std::vector<Shape>&, WorkspacePlan&) override { return {}; }
  void forward(const Context&, Tensors, Tensors) override {}
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
};

}  // namespace kinet
