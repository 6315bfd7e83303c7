#include "layers/scale.h"

#include <fmt/format.h>

#include <algorithm>

#include "layers/broadcast_shape.h"
#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

namespace {

const MessageType& scale_fields() {
  static const MessageType type{
      "scale_param",
      "Which axes share a factor.",
      {
          int_field("axis", "1", "First axis of the factors; may count from the end (-1)."),
          int_field("num_axes", "1",
                    "Number of axes that the factors span, from axis on; -1: all, 0: one factor "
                    "for everything. Not used with a second bottom, whose shape decides."),
          message_field("filler", filler_fields(), "How the factors start; 1 by default."),
          bool_field("bias_term", "false", "Whether a learned bias of the same shape is added."),
          message_field("bias_filler", filler_fields(), "How the biases start; 0 by default."),
      }};
  return type;
}

void add_to(const std::vector<double>& sums, float* gradient) {
  for (size_t d = 0; d < sums.size(); ++d) gradient[d] += static_cast<float>(sums[d]);
}

}  // namespace

LayerType ScaleLayer::describe() {
  LayerType type;
  type.type = "Scale";
  type.help = "Multiplies by learned factors (or a second bottom), one a channel by default.";
  type.fields = {message_field("scale_param", scale_fields(), "Which axes share a factor.")};
  type.max_bottoms = 2;
  type.in_place = true;
  return type;
}

void ScaleLayer::set_up(const std::vector<Shape>& bottoms) {
  const Params p = params("scale_param");
  const std::string where = fmt::format("{}: layer '{}' (Scale)", this->where().str(), name());
  learned_ = bottoms.size() == 1;
  bias_term_ = p.get_bool("bias_term");
  axis_ =
      bottoms.at(0).canonical_axis(p.get_int32("axis"), fmt::format("axis of layer '{}'", name()));
  scale_shape_ =
      learned_ ? broadcast_shape(bottoms[0], axis_, p.get_int("num_axes"), where) : bottoms[1];
  if (learned_) declare_parameter(scale_shape_, read_filler(p.message("filler"), 1));
  if (bias_term_) declare_parameter(scale_shape_, read_filler(p.message("bias_filler")));
}

std::vector<Shape> ScaleLayer::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  const std::string where = fmt::format("{}: layer '{}' (Scale)", this->where().str(), name());
  if (!learned_) {
    if (bias_term_ && bottoms[1] != scale_shape_) {
      fail_here(fmt::format("its bias of shape {} does not fit a second bottom of shape {}",
                            scale_shape_.str(), bottoms[1].str()));
    }
    scale_shape_ = bottoms[1];
  }
  broadcast_ = broadcast_sizes(bottoms.at(0), axis_, scale_shape_, where);
  sums_.resize(static_cast<size_t>(broadcast_.count));
  return {bottoms[0]};
}

void ScaleLayer::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* scale = learned_ ? blobs()[0].data() : bottoms[1]->data();
  const float* bias = bias_term_ ? blobs().back().data() : nullptr;
  broadcast_affine(context.threads, broadcast_, bottoms[0]->data(), scale, bias, tops[0]->data());
}

void ScaleLayer::backward(const Context& context, Tensors tops, Tensors bottoms,
                          const BackwardMask& mask) {
  const float* dy = tops[0]->diff();
  if (bias_term_ && mask.blob.back()) {
    broadcast_sum(context.threads, broadcast_, dy, sums_.data());
    add_to(sums_, blobs().back().diff());
  }
  if (learned_ ? mask.blob[0] : mask.bottom[1]) {
    broadcast_dot(context.threads, broadcast_, dy, bottoms[0]->data(), sums_.data());
    float* gradient = learned_ ? blobs()[0].diff() : bottoms[1]->diff();
    if (!learned_) std::fill_n(gradient, broadcast_.count, 0.0f);
    add_to(sums_, gradient);
  }
  if (mask.bottom[0]) {
    const float* scale = learned_ ? blobs()[0].data() : bottoms[1]->data();
    broadcast_affine(context.threads, broadcast_, dy, scale, nullptr, bottoms[0]->diff());
  }
}

double ScaleLayer::macs() const {
  return static_cast<double>(broadcast_.outer) * broadcast_.count * broadcast_.inner;
}

KINET_REGISTER_LAYER(ScaleLayer);

}  // namespace kinet
