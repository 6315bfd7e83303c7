#include "layers/blob_shape.h"

#include <fmt/core.h>

namespace kinet {

const MessageType& blob_shape_fields() {
  static const MessageType type{
      "shape",
      "a shape",
      {repeated(wide(int_field("dim", "", "size of each axis, outermost first")))}};
  return type;
}

Shape read_blob_shape(const Params& shape) {
  std::vector<int64_t> dims = shape.get_ints("dim");
  for (int64_t dim : dims) {
    if (dim < 1) fail_at(shape.where("dim"), fmt::format("dim {} must be at least 1", dim));
  }
  return Shape(std::move(dims));
}

}  // namespace kinet
