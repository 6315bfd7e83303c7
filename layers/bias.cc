#include "layers/bias.h"

#include <fmt/format.h>

#include <algorithm>

#include "layers/broadcast_shape.h"

namespace kinet {

namespace {

const MessageType& bias_fields() {
  static const MessageType type{
      "bias_param",
      "Which axes share a bias.",
      {
          int_field("axis", "1", "First axis of the biases; may count from the end (-1)."),
          int_field("num_axes", "1",
                    "Number of axes that the biases span, from axis on; -1: all, 0: one bias for "
                    "everything. Not used with a second bottom, whose shape decides."),
          message_field("filler", filler_fields(), "How the biases start; 0 by default."),
      }};
  return type;
}

}  // namespace

LayerType BiasLayer::describe() {
  LayerType type;
  type.type = "Bias";
  type.help = "Adds learned biases (or a second bottom), one a channel by default.";
  type.fields = {message_field("bias_param", bias_fields(), "Which axes share a bias.")};
  type.max_bottoms = 2;
  type.in_place = true;
  return type;
}

void BiasLayer::set_up(const std::vector<Shape>& bottoms) {
  const Params p = params("bias_param");
  learned_ = bottoms.size() == 1;
  axis_ =
      bottoms.at(0).canonical_axis(p.get_int32("axis"), fmt::format("axis of layer '{}'", name()));
  if (!learned_) return;
  bias_shape_ = broadcast_shape(bottoms[0], axis_, p.get_int("num_axes"),
                                fmt::format("{}: layer '{}' (Bias)", where().str(), name()));
  declare_parameter(bias_shape_, read_filler(p.message("filler")));
}

std::vector<Shape> BiasLayer::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  broadcast_ = broadcast_sizes(bottoms.at(0), axis_, learned_ ? bias_shape_ : bottoms.at(1),
                               fmt::format("{}: layer '{}' (Bias)", where().str(), name()));
  sums_.resize(static_cast<size_t>(broadcast_.count));
  return {bottoms[0]};
}

void BiasLayer::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* bias = learned_ ? blobs()[0].data() : bottoms[1]->data();
  broadcast_affine(context.threads, broadcast_, bottoms[0]->data(), nullptr, bias, tops[0]->data());
}

void BiasLayer::backward(const Context& context, Tensors tops, Tensors bottoms,
                         const BackwardMask& mask) {
  const float* dy = tops[0]->diff();
  if (learned_ ? mask.blob[0] : mask.bottom[1]) {
    broadcast_sum(context.threads, broadcast_, dy, sums_.data());
    float* gradient = learned_ ? blobs()[0].diff() : bottoms[1]->diff();
    if (!learned_) std::fill_n(gradient, broadcast_.count, 0.0f);
    for (int64_t d = 0; d < broadcast_.count; ++d) gradient[d] += static_cast<float>(sums_[d]);
  }
  if (mask.bottom[0] && bottoms[0]->diff() != dy) {
    std::copy_n(dy, tops[0]->count(), bottoms[0]->diff());
  }
}

KINET_REGISTER_LAYER(BiasLayer);

}  // namespace kinet
