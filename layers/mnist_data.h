// MnistData: images and labels from IDX files (MNIST, Fashion-MNIST), plain or gzipped.
//
// Shapes: see batch_data_layer.h; C = 1 for the usual files of N H W.
#pragma once

#include "layers/batch_data_layer.h"

namespace kinet {

class MnistData : public BatchDataLayer {
 public:
  static LayerType describe();

 protected:
  Params source_params() const override { return params("mnist_data_param"); }
  std::shared_ptr<const Dataset> open(const Params& source,
                                      const TransformSpec& transform) override;
};

}  // namespace kinet
