#include "src/cli/shape_flag.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "src/base/check.h"
#include "src/net/deploy.h"

namespace kinet {
namespace {

// Every data set's layer has its own message ("data_param"), told by its batch_size.
const Field* source_field(const LayerType& type) {
  for (const Field& field : type.fields) {
    if (field.message != nullptr && field.message->find("batch_size") != nullptr) return &field;
  }
  return nullptr;
}

const LayerType* type_of(const ParamNode& layer) {
  const ParamNode* type = layer.find("type");
  return type == nullptr ? nullptr : LayerRegistry::instance().find(type->text);
}

// The value of `field` in whichever message of the layer has it, or "".
std::string value_in(const ParamNode& layer, const char* field) {
  for (const ParamNode& child : layer.children) {
    const ParamNode* found = child.is_message() ? child.find(field) : nullptr;
    if (found != nullptr) return found->text;
  }
  return "";
}

struct Guess {
  std::string channels, height, width;
  bool sure_of_channels = false;
};

Guess guess_shape(const ParamNode& layer) {
  Guess guess{"3", value_in(layer, "new_height"), value_in(layer, "new_width")};
  const std::string crop = value_in(layer, "crop_size");
  if (!crop.empty() && crop != "0") guess.height = guess.width = crop;
  const LayerType* type = type_of(layer);
  const bool is_mnist = type != nullptr && type->type == "MnistData";
  const bool is_cifar = type != nullptr && type->type == "Cifar10Data";
  const bool grey =
      value_in(layer, "force_gray") == "true" || value_in(layer, "is_color") == "false";
  if (is_mnist || grey) guess.channels = "1";
  const ParamNode* transform = layer.find("transform_param");
  const size_t means = transform == nullptr ? 0 : transform->find_all("mean_value").size();
  guess.sure_of_channels = is_mnist || is_cifar || grey || means == 3 ||
                           value_in(layer, "force_color") == "true" ||
                           (type != nullptr && type->type == "ImageData");
  if (guess.height.empty() && (is_mnist || is_cifar)) {
    guess.height = guess.width = is_mnist ? "28" : "32";
  }
  return guess;
}

ParamNode dummy_layer(const ParamNode& layer, int64_t batch, const std::vector<int64_t>& shape) {
  ParamNode out;
  out.name = "layer";
  out.where = layer.where;
  for (const char* field : {"name", "type", "top", "include", "exclude", "phase"}) {
    for (const ParamNode* child : layer.find_all(field)) out.children.push_back(*child);
  }
  out.find("type")->text = "DummyData";
  const size_t tops = layer.find_all("top").size();
  ParamNode& dummy = out.add_message("dummy_data_param");
  for (size_t top = 0; top < tops; ++top) {
    ParamNode& dims = dummy.add_message("shape");
    dims.add_scalar("dim", std::to_string(batch));
    for (const int64_t dim : shape) {
      if (top == 0) dims.add_scalar("dim", std::to_string(dim));
    }
    ParamNode& filler = dummy.add_message("data_filler");
    filler.add_string("type", top == 0 ? "gaussian" : "constant");
    filler.add_scalar(top == 0 ? "std" : "value", top == 0 ? "1" : "0");
  }
  dummy.add_scalar("refill", "false");
  return out;
}

}  // namespace

void add_shape_flag(CLI::App& app, std::vector<int64_t>& shape, const std::string& help) {
  app.add_option("--shape", shape, help)
      ->delimiter(',')
      ->expected(3)
      ->allow_extra_args(false)
      ->check(CLI::PositiveNumber);
}

std::string shape_hint(const ParamNode& net) {
  const ParamNode* layer = find_data_layer(net);
  const Guess guess = layer == nullptr ? Guess{} : guess_shape(*layer);
  if (guess.height.empty() || guess.width.empty()) {
    return "--shape CHANNELS,HEIGHT,WIDTH gives the images' shape without the data, such as "
           "--shape 3,32,32";
  }
  return fmt::format(
      "--shape {},{},{} does without the data; the size is the one of the data layer{}",
      guess.channels, guess.height, guess.width,
      guess.sure_of_channels ? "" : ", 3 channels are a guess");
}

Shape images_shape(const ParamNode& net, const std::vector<int64_t>& shape) {
  if (!shape.empty()) return Shape{1, shape[0], shape[1], shape[2]};
  try {
    return open_data_shape(net);
  } catch (const Error& error) {
    const std::string what = error.what();
    fail("{}\nhint: {}", what.substr(0, what.find("\nhint:")), shape_hint(net));
  }
}

ParamNode with_dummy_data(const ParamNode& net, const std::vector<int64_t>& shape, int64_t batch) {
  ParamNode out = net;
  for (ParamNode& layer : out.children) {
    const LayerType* type = layer.name == "layer" ? type_of(layer) : nullptr;
    const Field* field = type != nullptr && type->is_data ? source_field(*type) : nullptr;
    if (field == nullptr) continue;
    const Params source(layer.find(field->name), field->message);
    const int64_t images = batch > 0 ? batch : source.get_int("batch_size");
    layer = dummy_layer(layer, std::max<int64_t>(1, images), shape);
  }
  return out;
}

}  // namespace kinet
