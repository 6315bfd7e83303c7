// The sums of the collectives: float32, in a fixed order, as fast as memory allows.
#pragma once

#include <cstddef>
#include <span>

namespace kinet {

// to[i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ...  for i < count.
// `to` may be one of the sources, but may not overlap one otherwise. REQUIRES: a source.
void sum_floats(std::span<const float* const> sources, float* to, size_t count);

}  // namespace kinet
