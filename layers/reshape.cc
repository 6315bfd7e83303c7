#include "layers/reshape.h"

#include <algorithm>

#include "layers/blob_shape.h"

namespace kinet {
namespace {

const MessageType& reshape_fields() {
  static const MessageType type{
      "reshape_param",
      "the new shape",
      {message_field("shape", blob_shape_fields(), "new sizes: 0 = as before, -1 = what is left"),
       int_field("axis", "0", "first axis replaced; -1 = after the last"),
       int_field("num_axes", "-1", "number of axes replaced; -1 = all from axis on")}};
  return type;
}

}  // namespace

LayerType Reshape::describe() {
  LayerType type;
  type.type = "Reshape";
  type.help = "gives the values another shape";
  type.fields = {message_field("reshape_param", reshape_fields(), "of Reshape")};
  type.refuses_in_place = true;
  type.top_memory = TopMemory::kSharesDataAndDiff;
  type.host_ok = true;
  return type;
}

void Reshape::set_up(const std::vector<Shape>&) {
  const Params p = params("reshape_param");
  dims_ = p.message("shape").get_ints("dim");
  axis_ = p.get_int32("axis");
  num_axes_ = p.get_int32("num_axes");
  for (int64_t dim : dims_) {
    if (dim < -1) fail_here(fmt::format("dim {} must be -1, 0 or a size", dim));
  }
  if (std::count(dims_.begin(), dims_.end(), -1) > 1) fail_here("only one dim may be -1");
  if (num_axes_ < -1) fail_here(fmt::format("num_axes {} must be at least -1", num_axes_));
}

std::vector<Shape> Reshape::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  const Shape& bottom = bottoms[0];
  const int first = axis_ >= 0 ? axis_ : bottom.axes() + axis_ + 1;
  const int64_t last = num_axes_ == -1 ? bottom.axes() : int64_t{first} + num_axes_;
  if (first < 0 || first > bottom.axes() || last > bottom.axes()) {
    fail_here(
        fmt::format("axis {} and num_axes {} do not fit shape {}", axis_, num_axes_, bottom.str()));
  }
  std::vector<int64_t> dims(bottom.dims().begin(), bottom.dims().begin() + first);
  for (size_t i = 0; i < dims_.size(); ++i) {
    const int from = first + static_cast<int>(i);
    if (dims_[i] == 0 && from >= bottom.axes()) {
      fail_here(fmt::format("dim 0 at place {} has no axis to copy in shape {}", i, bottom.str()));
    }
    dims.push_back(dims_[i] == 0 ? bottom[from] : dims_[i]);
  }
  dims.insert(dims.end(), bottom.dims().begin() + last, bottom.dims().end());
  Shape top{dims};
  infer(bottom, top, first);
  return {top};
}

// Replaces the -1, if any, and checks that no value is lost or made up.
void Reshape::infer(const Shape& bottom, Shape& top, int axis) const {
  const auto open = std::find(dims_.begin(), dims_.end(), -1);
  if (open != dims_.end()) {
    const int place = axis + static_cast<int>(open - dims_.begin());
    top[place] = 1;
    const int64_t known = top.count();
    if (known > 0 && bottom.count() % known == 0) top[place] = bottom.count() / known;
  }
  if (top.count() != bottom.count()) {
    fail_here(fmt::format("shape {} ({} values) does not fit into {} ({} values)", bottom.str(),
                          bottom.count(), top.str(), top.count()));
  }
}

KINET_REGISTER_LAYER(Reshape);

}  // namespace kinet
