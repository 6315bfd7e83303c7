// Numbers of an experiment in JSON, which has no NaN and no Inf: null stands for all of them.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace kinet {

nlohmann::ordered_json json_number(double value);

}  // namespace kinet
