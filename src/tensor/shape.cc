#include "src/tensor/shape.h"

#include "src/base/check.h"

namespace kinet {

int64_t Shape::count(int from, int to) const {
  int64_t product = 1;
  bool empty = false;
  for (int axis = from; axis < to; ++axis) {
    const int64_t dim = dims_[axis];
    empty = empty || dim == 0;
    if (dim == 0) continue;
    KINET_CHECK(dim > 0, "shape {} has a negative size", str());
    KINET_CHECK(dim <= kMaxElements / product,
                "shape {} has more elements than kinet can hold (at most 2^40)", str());
    product *= dim;
  }
  return empty ? 0 : product;
}

int Shape::canonical_axis(int64_t axis, const std::string& what) const {
  const int64_t canonical = axis < 0 ? axis + axes() : axis;
  KINET_CHECK(canonical >= 0 && canonical < axes(), "{} {} is out of range for shape {} ({} axes)",
              what, axis, str(), axes());
  return static_cast<int>(canonical);
}

std::string Shape::str() const {
  if (dims_.empty()) return "scalar";
  std::string out;
  for (int64_t dim : dims_) out += (out.empty() ? "" : "x") + std::to_string(dim);
  return out;
}

}  // namespace kinet
