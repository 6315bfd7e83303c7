// Cifar10Data: the binary files of CIFAR-10, one or more.
//
// Shapes: see batch_data_layer.h; C H W = 3 32 32, in the order blue, green, red.
#pragma once

#include "layers/batch_data_layer.h"

namespace kinet {

class Cifar10Data : public BatchDataLayer {
 public:
  static LayerType describe();

 protected:
  Params source_params() const override { return params("cifar10_data_param"); }
  std::shared_ptr<const Dataset> open(const Params& source,
                                      const TransformSpec& transform) override;
};

}  // namespace kinet
