#include "layers/arg_max.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kinet {
namespace {

const MessageType& arg_max_fields() {
  static const MessageType type{
      "argmax_param",
      "what is looked for",
      {bool_field("out_max_val", "false", "give the values (too)"),
       uint_field("top_k", "1", "how many"),
       int_field("axis", "", "the axis; negative counts from the end; absent: the whole sample")}};
  return type;
}

// NaN sorts below everything.
float key(float value) {
  return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
}

}  // namespace

LayerType ArgMax::describe() {
  LayerType type;
  type.type = "ArgMax";
  type.help = "indices of the largest scores";
  type.fields = {message_field("argmax_param", arg_max_fields(), "of ArgMax")};
  type.host_ok = true;
  return type;
}

void ArgMax::set_up(const std::vector<Shape>&) {
  const Params p = params("argmax_param");
  out_max_val_ = p.get_bool("out_max_val");
  top_k_ = p.get_int("top_k");
  has_axis_ = p.has("axis");
  if (has_axis_) axis_ = p.get_int32("axis");
}

std::vector<Shape> ArgMax::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  const Shape& bottom = bottoms[0];
  const int axis = has_axis_ ? bottom.canonical_axis(axis_, "layer '" + name() + "': axis") : 1;
  outer_ = has_axis_ ? bottom.count(0, axis) : bottom.num();
  row_ = has_axis_ ? bottom[axis] : bottom.count(std::min(1, bottom.axes()));
  inner_ = has_axis_ ? bottom.count(axis + 1) : 1;
  if (top_k_ < 1 || top_k_ > row_) {
    fail_here(fmt::format("top_k {} of {} values (bottom {})", top_k_, row_, bottom.str()));
  }
  if (has_axis_) {
    Shape top = bottom;
    top[axis] = top_k_;
    return {top};
  }
  Shape top(std::vector<int64_t>(std::max(3, bottom.axes()), 1));
  top[0] = bottom.num();
  top[1] = out_max_val_ ? 2 : 1;
  top[2] = top_k_;
  return {top};
}

void ArgMax::forward(const Context&, Tensors bottoms, Tensors tops) {
  std::vector<int64_t> order(row_);
  for (int64_t o = 0; o < outer_; ++o) {
    for (int64_t i = 0; i < inner_; ++i) {
      const float* x = bottoms[0]->data() + o * row_ * inner_ + i;
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + top_k_, order.end(),
                        [&](int64_t a, int64_t b) {
                          const float ka = key(x[a * inner_]), kb = key(x[b * inner_]);
                          return ka != kb ? ka > kb : a > b;
                        });
      const bool both = out_max_val_ && !has_axis_;
      float* y = tops[0]->data() + o * top_k_ * inner_ * (both ? 2 : 1) + i;
      for (int64_t k = 0; k < top_k_; ++k) {
        const auto index = static_cast<float>(order[k]);
        const float value = x[order[k] * inner_];
        y[k * inner_] = out_max_val_ && has_axis_ ? value : index;
        if (both) y[(top_k_ + k) * inner_] = value;
      }
    }
  }
}

KINET_REGISTER_LAYER(ArgMax);

}  // namespace kinet
