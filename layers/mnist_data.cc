#include "layers/mnist_data.h"

#include "data/idx.h"

namespace kinet {

LayerType MnistData::describe() {
  static const MessageType message{
      "mnist_data_param", "Images and labels in IDX files.",
      with({path_field("images", "IDX file of images, plain or gzipped."),
            path_field("labels", "IDX file of their labels, plain or gzipped.")},
           common_fields("", "A new order in each epoch; by default true in TRAIN."))};
  return describe_data("MnistData", "Images and labels from IDX files (MNIST, Fashion-MNIST).",
                       message);
}

std::shared_ptr<const Dataset> MnistData::open(const Params& source, const TransformSpec&) {
  const std::string images = existing_path(source, "images");
  return open_idx(images, existing_path(source, "labels"));
}

KINET_REGISTER_LAYER(MnistData);

}  // namespace kinet
