// Labels of a loss that count nothing (ignore_label), as a kernel asks for them.
#pragma once

#include <optional>

#include "cuda/gpu.h"

namespace kinet {

struct IgnoredLabel {
  bool any = false;
  float label = 0;

  IgnoredLabel() = default;
  template <class Number>
  explicit IgnoredLabel(const std::optional<Number>& ignored)
      : any(ignored.has_value()), label(static_cast<float>(ignored.value_or(0))) {}

  __device__ bool operator()(float l) const { return any && l == label; }
};

}  // namespace kinet
