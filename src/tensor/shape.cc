#include "src/tensor/shape.h"

#include "src/base/check.h"

namespace kinet {

int64_t Shape::count(int from, int to) const {
  int64_t product = 1;
  for (int axis = from; axis < to; ++axis) product *= dims_[axis];
  return product;
}

int Shape::canonical_axis(int axis, const std::string& what) const {
  const int canonical = axis < 0 ? axis + axes() : axis;
  KINET_CHECK(canonical >= 0 && canonical < axes(), "{} {} is out of range for shape {} ({} axes)",
              what, axis, str(), axes());
  return canonical;
}

std::string Shape::str() const {
  if (dims_.empty()) return "scalar";
  std::string out;
  for (int64_t dim : dims_) out += (out.empty() ? "" : "x") + std::to_string(dim);
  return out;
}

}  // namespace kinet
