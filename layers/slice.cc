#include "layers/slice.h"

#include <algorithm>

namespace kinet {
namespace {

const MessageType& slice_fields() {
  static const MessageType type{
      "slice_param",
      "where the bottom is cut",
      {int_field("axis", "1", "the axis; negative counts from the end"),
       uint_field("slice_dim", "1", "old name of axis"),
       repeated(uint_field("slice_point", "", "first index of each top but the first"))}};
  return type;
}

}  // namespace

LayerType Slice::describe() {
  LayerType type;
  type.type = "Slice";
  type.help = "cuts the bottom into tops along one axis";
  type.fields = {message_field("slice_param", slice_fields(), "of Slice")};
  type.max_tops = -1;
  return type;
}

void Slice::set_up(const std::vector<Shape>& bottoms) {
  const Params p = params("slice_param");
  if (p.has("axis") && p.has("slice_dim")) {
    fail_at(p.where("slice_dim"), "layer '" + name() + "': give axis or slice_dim, not both");
  }
  const int64_t axis = p.get_int(p.has("slice_dim") ? "slice_dim" : "axis");
  axis_ = bottoms[0].canonical_axis(axis, "layer '" + name() + "': axis");
  points_ = p.get_ints("slice_point");
  if (!points_.empty() && static_cast<int>(points_.size()) != top_count() - 1) {
    fail_at(p.where("slice_point"), fmt::format("layer '{}': {} slice_point for {} tops (one less)",
                                                name(), points_.size(), top_count()));
  }
}

// Indices on the axis where tops begin, and its end.
std::vector<int64_t> Slice::bounds(const Shape& bottom) const {
  const int64_t size = bottom[axis_], tops = top_count();
  std::vector<int64_t> out{0};
  if (points_.empty() && size % tops != 0) {
    fail_here(fmt::format("axis {} of shape {} cannot be cut into {} equal parts", axis_,
                          bottom.str(), tops));
  }
  for (int64_t t = 1; t < tops; ++t) {
    out.push_back(points_.empty() ? size / tops * t : points_[t - 1]);
  }
  out.push_back(size);
  for (size_t i = 1; i < out.size(); ++i) {
    if (out[i] > out[i - 1]) continue;
    fail_here(fmt::format("slice_point must rise within 1..{} (axis {} of shape {})", size - 1,
                          axis_, bottom.str()));
  }
  return out;
}

std::vector<Shape> Slice::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  const std::vector<int64_t> bound = bounds(bottoms[0]);
  const int64_t inner = bottoms[0].count(axis_ + 1);
  outer_ = bottoms[0].count(0, axis_);
  row_ = bottoms[0].count(axis_);
  start_.clear();
  for (int64_t index : bound) start_.push_back(index * inner);
  std::vector<Shape> tops;
  for (size_t t = 0; t + 1 < bound.size(); ++t) {
    tops.push_back(bottoms[0]);
    tops.back()[axis_] = bound[t + 1] - bound[t];
  }
  return tops;
}

void Slice::forward(const Context&, Tensors bottoms, Tensors tops) {
  const float* x = bottoms[0]->data();
  for (size_t t = 0; t < tops.size(); ++t) {
    const int64_t part = start_[t + 1] - start_[t];
    float* y = tops[t]->data();
    for (int64_t o = 0; o < outer_; ++o) std::copy_n(x + o * row_ + start_[t], part, y + o * part);
  }
}

void Slice::backward(const Context&, Tensors tops, Tensors bottoms, const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  float* dx = bottoms[0]->diff();
  for (size_t t = 0; t < tops.size(); ++t) {
    const int64_t part = start_[t + 1] - start_[t];
    for (int64_t o = 0; o < outer_; ++o) {
      float* to = dx + o * row_ + start_[t];
      if (tops[t]->has_diff()) {
        std::copy_n(tops[t]->diff() + o * part, part, to);
      } else {
        std::fill_n(to, part, 0.0f);
      }
    }
  }
}

KINET_REGISTER_LAYER(Slice);

}  // namespace kinet
