// ImageData: image files named in a list of lines "path label".
//
// Shapes: see batch_data_layer.h; C = 3 (blue, green, red) or 1 with is_color false; H and W are
//         new_height and new_width, or the image's own.
// A list is checked when the net is built: faulty lines, missing and empty files. An image that
// cannot be decoded is found when its turn comes: see on_error.
#pragma once

#include "layers/batch_data_layer.h"

namespace kinet {

class ImageData : public BatchDataLayer {
 public:
  static LayerType describe();

 protected:
  Params source_params() const override { return params("image_data_param"); }
  std::shared_ptr<const Dataset> open(const Params& source,
                                      const TransformSpec& transform) override;
  bool shuffles_in_training() const override { return false; }  // as in Caffe
};

}  // namespace kinet
