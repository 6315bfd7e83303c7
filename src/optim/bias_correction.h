// The factor by which Adam's rules make up for moments that start at zero.
#pragma once

#include <cmath>
#include <cstdint>

namespace kinet {

// sqrt(1 - beta2^t) / (1 - beta1^t)
inline float bias_correction(float beta1, float beta2, int64_t t) {
  const auto steps = static_cast<double>(t);
  const double first = 1 - std::pow(static_cast<double>(beta1), steps);
  return static_cast<float>(std::sqrt(1 - std::pow(static_cast<double>(beta2), steps)) / first);
}

}  // namespace kinet
