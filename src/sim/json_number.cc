#include "src/sim/json_number.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace kinet {

nlohmann::ordered_json json_number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace kinet
