// Numbers of an experiment in JSON, which has no NaN and no Inf: null stands for all of them.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

namespace kinet {

inline nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace kinet
