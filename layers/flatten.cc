#include "layers/flatten.h"

namespace kinet {
namespace {

const MessageType& flatten_fields() {
  static const MessageType type{
      "flatten_param",
      "which axes are joined",
      {int_field("axis", "1", "first axis; negative counts from the end"),
       int_field("end_axis", "-1", "last axis; negative counts from the end")}};
  return type;
}

}  // namespace

LayerType Flatten::describe() {
  LayerType type;
  type.type = "Flatten";
  type.help = "joins axes into one";
  type.fields = {message_field("flatten_param", flatten_fields(), "of Flatten")};
  type.refuses_in_place = true;
  type.top_memory = TopMemory::kSharesDataAndDiff;
  type.host_ok = true;
  return type;
}

void Flatten::set_up(const std::vector<Shape>&) {
  axis_ = params("flatten_param").get_int32("axis");
  end_axis_ = params("flatten_param").get_int32("end_axis");
}

std::vector<Shape> Flatten::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  const Shape& bottom = bottoms[0];
  const int first = bottom.canonical_axis(axis_, "layer '" + name() + "': axis");
  const int last = bottom.canonical_axis(end_axis_, "layer '" + name() + "': end_axis");
  if (last < first) fail_here(fmt::format("end_axis {} is before axis {}", last, first));
  std::vector<int64_t> dims(bottom.dims().begin(), bottom.dims().begin() + first);
  dims.push_back(bottom.count(first, last + 1));
  dims.insert(dims.end(), bottom.dims().begin() + last + 1, bottom.dims().end());
  return {Shape(dims)};
}

KINET_REGISTER_LAYER(Flatten);

}  // namespace kinet
