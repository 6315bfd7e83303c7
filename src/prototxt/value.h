// Values of scalar fields: what their text means, and whether it suits the declared kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/prototxt/fields.h"
#include "src/prototxt/node.h"

namespace kinet {

enum class IntegerText { kInteger, kNotInteger, kTooLarge };

// Decimal, hexadecimal (0x1F) or octal (017), with an optional '-'.
IntegerText parse_integer(std::string_view text, int64_t& out);

// Any number: also 1.5, .5, 1e-3, 1.5f, inf, infinity, nan, with an optional '-'. A number too
// large for a double gives infinity.
std::optional<double> parse_real(std::string_view text);

// What is wrong with `value` as a value of `field`: "field 'num_output' wants a whole number, not
// \"abc\"", or "". Does not look into messages.
std::string check_value(const Field& field, const ParamNode& value);

// The value's number, name, ... REQUIRES: check_value() found nothing wrong.
int64_t integer_of(const ParamNode& value);
double real_of(const ParamNode& value);
bool bool_of(const ParamNode& value);
std::string enum_of(const Field& field, const ParamNode& value);

}  // namespace kinet
