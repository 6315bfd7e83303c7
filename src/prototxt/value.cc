// What the text of a scalar means. Forms are those of protobuf's text format, and a little more:
// hexadecimal numbers for float fields, quoted names of enumerations.
#include "src/prototxt/value.h"

#include <fmt/core.h>

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <limits>

#include "src/base/text.h"
#include "src/prototxt/escape.h"

namespace kinet {
namespace {

// Counts and sizes end up as int; see FieldKind.
constexpr int64_t kLargestUint = std::numeric_limits<int32_t>::max();

struct IntRange {
  int64_t least, most;
};

template <class T>
constexpr IntRange kRangeOf{std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};

IntRange range_of(const Field& field) {
  if (field.kind == FieldKind::kUint) return {0, kLargestUint};
  return field.wide ? kRangeOf<int64_t> : kRangeOf<int32_t>;
}

bool take_minus(std::string_view& text) {
  if (text.empty() || text[0] != '-') return false;
  text.remove_prefix(1);
  return true;
}

bool is_infinity(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text == "inf" || text == "infinity";
}

// Sign and case as protobuf and printf write them.
bool is_nan(const std::string& text) { return text == "nan" || text == "NaN" || text == "NAN"; }

bool is_true(const std::string& text) { return text == "true" || text == "True" || text == "t"; }
bool is_false(const std::string& text) { return text == "false" || text == "False" || text == "f"; }

// "abc" as written: quoted or bare, or what it is when it is no scalar.
std::string shown(const ParamNode& value) {
  switch (value.kind) {
    case ParamNode::Kind::kMessage:
      return "a message { ... }";
    case ParamNode::Kind::kString:
      return quoted_short(value.text);
    default:
      return value.text.size() <= 60 ? value.text : value.text.substr(0, 60) + "...";
  }
}

std::string wants(const Field& field, const std::string& what, const ParamNode& value) {
  return fmt::format("field '{}' wants {}, not {}", field.name, what, shown(value));
}

// A number in quotes is refused, as protobuf does: the file would not work elsewhere.
std::string check_integer(const Field& field, const ParamNode& value) {
  const bool is_uint = field.kind == FieldKind::kUint;
  int64_t number = 0;
  const IntegerText meaning = value.kind == ParamNode::Kind::kNumber
                                  ? parse_integer(value.text, number)
                                  : IntegerText::kNotInteger;
  if (meaning == IntegerText::kNotInteger) return wants(field, "a whole number", value);
  const bool zero = meaning == IntegerText::kInteger && number == 0;
  if (is_uint && value.text[0] == '-' && !zero) {
    return wants(field, "a whole number that is not negative", value);
  }
  const auto [least, most] = range_of(field);
  if (meaning == IntegerText::kInteger && number >= least && number <= most) return "";
  return wants(field,
               value.text[0] == '-' ? fmt::format("a whole number from {} on", least)
                                    : fmt::format("a whole number up to {}", most),
               value);
}

// An infinity must be written as one: 1e39 is a slip of the keyboard.
std::string check_real(const Field& field, const ParamNode& value) {
  const bool scalar =
      value.kind == ParamNode::Kind::kNumber || value.kind == ParamNode::Kind::kIdentifier;
  const std::optional<double> number = scalar ? parse_real(value.text) : std::nullopt;
  if (!number) return wants(field, "a number", value);
  const bool written_infinite =
      std::isinf(*number) && value.text.find_first_of("nN") != std::string::npos;
  if (!written_infinite && std::fabs(*number) > FLT_MAX) {
    return wants(field, "a number of at most 3.4e38", value);
  }
  return "";
}

std::string check_bool(const Field& field, const ParamNode& value) {
  int64_t number = 0;
  const bool named =
      value.kind == ParamNode::Kind::kIdentifier && (is_true(value.text) || is_false(value.text));
  const bool numbered = value.kind == ParamNode::Kind::kNumber &&
                        parse_integer(value.text, number) == IntegerText::kInteger &&
                        (number == 0 || number == 1);
  return named || numbered ? "" : wants(field, "true or false, without quotes", value);
}

std::string check_string(const Field& field, const ParamNode& value) {
  if (value.kind == ParamNode::Kind::kString) return "";
  if (value.is_message()) return wants(field, "a string", value);
  return fmt::format("field '{0}' wants a string in quotes: {0}: {1}", field.name,
                     quoted_short(value.text));
}

// The declared value that is meant, by name (quoted or not) or by number.
const EnumValue* find_enum(const Field& field, const ParamNode& value) {
  int64_t number = 0;
  const bool by_number = value.kind == ParamNode::Kind::kNumber &&
                         parse_integer(value.text, number) == IntegerText::kInteger;
  for (const EnumValue& candidate : field.values) {
    if (by_number ? candidate.number == number : candidate.name == value.text) return &candidate;
  }
  return nullptr;
}

std::string check_enum(const Field& field, const ParamNode& value) {
  if (!value.is_message() && find_enum(field, value)) return "";
  std::vector<std::string> names;
  for (const EnumValue& candidate : field.values) names.push_back(candidate.name);
  std::string message = wants(field, "one of " + join(names, ", "), value);
  return value.is_message() ? message : message + did_you_mean(value.text, names);
}

std::string check_message(const Field& field, const ParamNode& value) {
  if (value.is_message()) return "";
  return fmt::format("field '{0}' is a message, written {0} {{ ... }}, not {1}", field.name,
                     shown(value));
}

}  // namespace

IntegerText parse_integer(std::string_view text, int64_t& out) {
  const bool negative = take_minus(text);
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
    text.remove_prefix(1);
  }
  if (text.empty()) return IntegerText::kNotInteger;
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size, base);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    return IntegerText::kNotInteger;
  }
  const uint64_t limit = uint64_t{std::numeric_limits<int64_t>::max()} + (negative ? 1 : 0);
  if (error == std::errc::result_out_of_range || size > limit) return IntegerText::kTooLarge;
  out = static_cast<int64_t>(negative ? 0 - size : size);
  return IntegerText::kInteger;
}

std::optional<double> parse_real(std::string_view text) {
  int64_t integer = 0;
  if (parse_integer(text, integer) == IntegerText::kInteger) return static_cast<double>(integer);
  const double sign = take_minus(text) ? -1.0 : 1.0;
  if (is_infinity(std::string(text))) return sign * std::numeric_limits<double>::infinity();
  if (is_nan(std::string(text))) return std::numeric_limits<double>::quiet_NaN();
  if (text.empty() || !((text[0] >= '0' && text[0] <= '9') || text[0] == '.')) return std::nullopt;
  if (text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9') return std::nullopt;
  if (text.size() > 1 && (text.back() == 'f' || text.back() == 'F')) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // Either too large or too near zero; from_chars does not say which.
    const bool tiny = text.find("e-") != text.npos || text.find("E-") != text.npos ||
                      text.substr(0, 2) == "0." || text[0] == '.';
    value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
  }
  return sign * value;
}

std::string check_value(const Field& field, const ParamNode& value) {
  switch (field.kind) {
    case FieldKind::kInt:
    case FieldKind::kUint:
      return check_integer(field, value);
    case FieldKind::kFloat:
      return check_real(field, value);
    case FieldKind::kBool:
      return check_bool(field, value);
    case FieldKind::kString:
      return check_string(field, value);
    case FieldKind::kEnum:
      return check_enum(field, value);
    case FieldKind::kMessage:
      return check_message(field, value);
  }
  return "";
}

int64_t integer_of(const ParamNode& value) {
  int64_t number = 0;
  parse_integer(value.text, number);
  return number;
}

double real_of(const ParamNode& value) { return parse_real(value.text).value_or(0.0); }

bool bool_of(const ParamNode& value) {
  return value.kind == ParamNode::Kind::kNumber ? integer_of(value) == 1 : is_true(value.text);
}

std::string enum_of(const Field& field, const ParamNode& value) {
  const EnumValue* found = find_enum(field, value);
  return found ? found->name : std::string();
}

}  // namespace kinet
