#include "layers/input.h"

#include "layers/blob_shape.h"

namespace kinet {
namespace {

const MessageType& input_fields() {
  static const MessageType type{
      "input_param",
      "the shapes of the tops",
      {repeated(message_field("shape", blob_shape_fields(), "one for all tops or one for each"))}};
  return type;
}

}  // namespace

LayerType Input::describe() {
  LayerType type;
  type.type = "Input";
  type.help = "tops that the program fills";
  type.fields = {message_field("input_param", input_fields(), "of Input")};
  type.min_bottoms = type.max_bottoms = 0;
  type.max_tops = -1;
  type.is_data = true;
  type.persistent_tops = true;
  type.host_ok = true;
  return type;
}

void Input::set_up(const std::vector<Shape>&) {
  for (const Params& shape : params("input_param").messages("shape")) {
    shapes_.push_back(read_blob_shape(shape));
  }
  const size_t tops = static_cast<size_t>(top_count());
  if (shapes_.size() == 1) shapes_.resize(tops, shapes_[0]);
  if (shapes_.size() != tops) {
    fail_here(fmt::format("{} shapes for {} tops; hint: input_param {{ shape {{ dim: 1 ... }} }}",
                          shapes_.size(), tops));
  }
}

KINET_REGISTER_LAYER(Input);

}  // namespace kinet
