#include "layers/broadcast_shape.h"

#include "src/base/check.h"

namespace kinet {

Shape broadcast_shape(const Shape& bottom, int axis, int64_t num_axes, const std::string& where) {
  const bool fits = num_axes >= -1 && num_axes <= bottom.axes() - axis;
  KINET_CHECK(fits, "{}: num_axes {} from axis {} on do not fit a bottom of shape {}", where,
              num_axes, axis, bottom.str());
  const int64_t end = num_axes < 0 ? bottom.axes() : axis + num_axes;
  return Shape(std::vector<int64_t>(bottom.dims().begin() + axis, bottom.dims().begin() + end));
}

Broadcast broadcast_sizes(const Shape& bottom, int axis, const Shape& part,
                          const std::string& where) {
  const int end = axis + part.axes();
  bool fits = end <= bottom.axes();
  for (int i = 0; fits && i < part.axes(); ++i) fits = part[i] == bottom[axis + i];
  KINET_CHECK(fits, "{}: a vector of shape {} does not fit a bottom of shape {} at axis {}", where,
              part.str(), bottom.str(), axis);
  return {bottom.count(0, axis), part.count(), bottom.count(end)};
}

}  // namespace kinet
