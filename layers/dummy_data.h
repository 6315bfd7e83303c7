// Tops made by fillers: for benchmarks and tests.
//
// Shapes: `shape`, or num, channels, height and width: one for all tops or one for each.
// Tops with a constant filler are filled once, the others anew by every forward from stream
// (kDummy, layer, pass, top), unless `refill` is false: then once too.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class DummyData : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  bool can_propagate(int) const override { return false; }

 protected:
  void read_shapes(const Params& p);

  std::vector<Shape> shapes_;
  std::vector<FillerSpec> fillers_;  // one for each top
  bool refill_ = true;
  bool filled_ = false;  // what is filled once
};

}  // namespace kinet
