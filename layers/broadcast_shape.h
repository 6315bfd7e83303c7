// Where a vector stands among the axes of a tensor (axis and num_axes of Scale and Bias).
#pragma once

#include <string>

#include "src/math/broadcast.h"
#include "src/tensor/shape.h"

namespace kinet {

// Dimensions [axis, axis + num_axes) of the bottom; num_axes -1: all from `axis` on; 0: a scalar.
// Throws Error that begins with `where` when there are not so many.
Shape broadcast_shape(const Shape& bottom, int axis, int64_t num_axes, const std::string& where);

// Outer, count and inner sizes when `part` stands at `axis` of the bottom. Throws Error with both
// shapes when it does not fit.
Broadcast broadcast_sizes(const Shape& bottom, int axis, const Shape& part,
                          const std::string& where);

}  // namespace kinet
