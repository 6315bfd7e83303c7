// Data: an LMDB database of Datums, raw or encoded images.
//
// Shapes: see batch_data_layer.h. Raw Datums keep the channels they have; encoded ones follow
//         force_color and force_gray.
#pragma once

#include "layers/batch_data_layer.h"

namespace kinet {

class Data : public BatchDataLayer {
 public:
  static LayerType describe();

 protected:
  Params source_params() const override { return params("data_param"); }
  std::shared_ptr<const Dataset> open(const Params& source,
                                      const TransformSpec& transform) override;
};

}  // namespace kinet
