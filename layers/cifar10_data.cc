#include "layers/cifar10_data.h"

#include "data/cifar10.h"

namespace kinet {

LayerType Cifar10Data::describe() {
  static const MessageType message{
      "cifar10_data_param", "Files of the binary version of CIFAR-10.",
      with({repeated(path_field("source", "A file (data_batch_1.bin); several are joined."))},
           common_fields("", "A new order in each epoch; by default true in TRAIN."))};
  return describe_data("Cifar10Data", "Images and labels from CIFAR-10's binary files.", message);
}

std::shared_ptr<const Dataset> Cifar10Data::open(const Params& source, const TransformSpec&) {
  std::vector<std::string> files;
  for (const std::string& written : source.get_strings("source")) {
    files.push_back(existing_path(written, source.where("source")));
  }
  if (files.empty()) fail_here("source is not given");
  return open_cifar10(files);
}

KINET_REGISTER_LAYER(Cifar10Data);

}  // namespace kinet
