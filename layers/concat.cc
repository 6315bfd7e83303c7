#include "layers/concat.h"

#include <algorithm>

#include "src/base/parallel.h"

namespace kinet {
namespace {

const MessageType& concat_fields() {
  static const MessageType type{"concat_param",
                                "where the bottoms are joined",
                                {int_field("axis", "1", "the axis; negative counts from the end"),
                                 uint_field("concat_dim", "1", "old name of axis")}};
  return type;
}

}  // namespace

LayerType Concat::describe() {
  LayerType type;
  type.type = "Concat";
  type.help = "joins bottoms along one axis";
  type.fields = {message_field("concat_param", concat_fields(), "of Concat")};
  type.max_bottoms = -1;
  return type;
}

void Concat::set_up(const std::vector<Shape>& bottoms) {
  const Params p = params("concat_param");
  if (p.has("axis") && p.has("concat_dim")) {
    fail_at(p.where("concat_dim"), "layer '" + name() + "': give axis or concat_dim, not both");
  }
  const int64_t axis = p.get_int(p.has("concat_dim") ? "concat_dim" : "axis");
  axis_ = bottoms[0].canonical_axis(axis, "layer '" + name() + "': axis");
}

std::vector<Shape> Concat::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  Shape top = bottoms[0];
  part_ = {top.count(axis_)};
  start_ = {0};
  for (size_t b = 1; b < bottoms.size(); ++b) {
    Shape same = bottoms[b];
    if (same.axes() == top.axes()) same[axis_] = top[axis_];
    if (same != top) {
      fail_here(
          fmt::format("bottom {} has shape {}, bottom 0 has shape {}: they may differ in "
                      "axis {} only",
                      b, bottoms[b].str(), bottoms[0].str(), axis_));
    }
    top[axis_] += bottoms[b][axis_];
    start_.push_back(start_.back() + part_.back());
    part_.push_back(bottoms[b].count(axis_));
  }
  outer_ = top.count(0, axis_);
  row_ = top.count(axis_);
  return {top};
}

void Concat::forward(const Context& context, Tensors bottoms, Tensors tops) {
  float* y = tops[0]->data();
  parallel_elements(
      context.threads, outer_,
      [&](int64_t begin, int64_t end, int) {
        for (size_t b = 0; b < bottoms.size(); ++b) {
          const float* x = bottoms[b]->data();
          for (int64_t o = begin; o < end; ++o) {
            std::copy_n(x + o * part_[b], part_[b], y + o * row_ + start_[b]);
          }
        }
      },
      std::max<int64_t>(1, 16384 / std::max<int64_t>(row_, 1)));
}

void Concat::backward(const Context&, Tensors tops, Tensors bottoms, const BackwardMask& mask) {
  const float* dy = tops[0]->diff();
  for (size_t b = 0; b < bottoms.size(); ++b) {
    if (!mask.bottom[b]) continue;
    float* dx = bottoms[b]->diff();
    for (int64_t o = 0; o < outer_; ++o) {
      std::copy_n(dy + o * row_ + start_[b], part_[b], dx + o * part_[b]);
    }
  }
}

KINET_REGISTER_LAYER(Concat);

}  // namespace kinet
