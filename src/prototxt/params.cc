// The typed getters. Each checks the declaration, then the value with the same rules as validate(),
// so that a tree that nobody validated (made by a program, or a test) is safe to read too.
#include <limits>

#include "src/base/check.h"
#include "src/prototxt/fields.h"
#include "src/prototxt/value.h"

namespace kinet {
namespace {

using Kinds = std::initializer_list<FieldKind>;

// The declaration, checked against what the caller asks for.
const Field& declared(const MessageType* type, const std::string& name, Kinds kinds) {
  KINET_CHECK(type, "field '{}' is asked of a message without a declared type", name);
  const Field* field = type->find(name);
  KINET_CHECK(field, "{} declares no field '{}', but it is asked for", type->name, name);
  bool asked_rightly = kinds.size() == 0;
  for (const FieldKind kind : kinds) asked_rightly |= field->kind == kind;
  KINET_CHECK(asked_rightly, "{} declares field '{}' with another kind than it is asked for",
              type->name, name);
  return *field;
}

// The declared default as if a file had given it.
ParamNode default_node(const Field& field) {
  ParamNode owner;
  if (field.kind == FieldKind::kString) return owner.add_string(field.name, field.default_value);
  return owner.add_scalar(field.name, field.default_value);
}

void check_or_fail(const Field& field, const ParamNode& value) {
  const std::string problem = check_value(field, value);
  if (!problem.empty()) fail_at(value.value_where, problem);
}

// The value in the file, else the default, else `zero`.
template <class T, class Convert>
T single(const ParamNode* node, const Field& field, T zero, const Convert& convert) {
  if (const ParamNode* child = node ? node->find(field.name) : nullptr) {
    check_or_fail(field, *child);
    return convert(*child);
  }
  if (field.default_value.empty()) return zero;
  const ParamNode fallback = default_node(field);
  check_or_fail(field, fallback);
  return convert(fallback);
}

template <class T, class Convert>
std::vector<T> all(const ParamNode* node, const Field& field, const Convert& convert) {
  std::vector<T> out;
  if (node) {
    for (const ParamNode* child : node->find_all(field.name)) {
      check_or_fail(field, *child);
      out.push_back(convert(*child));
    }
  }
  if (out.empty() && !field.default_value.empty()) {
    out.push_back(single<T>(nullptr, field, T(), convert));
  }
  return out;
}

std::string text_of(const ParamNode& value) { return value.text; }

}  // namespace

bool Params::has(const std::string& field) const { return count(field) > 0; }

int Params::count(const std::string& field) const {
  declared(type_, field, {});
  return node_ ? static_cast<int>(node_->find_all(field).size()) : 0;
}

int64_t Params::get_int(const std::string& field) const {
  const Field& f = declared(type_, field, {FieldKind::kInt, FieldKind::kUint});
  return single<int64_t>(node_, f, 0, integer_of);
}

int Params::get_int32(const std::string& field) const {
  const int64_t value = get_int(field);
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    fail_at(where(field),
            fmt::format("{} is {}, but must lie between {} and {}", field, value,
                        std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
  }
  return static_cast<int>(value);
}

double Params::get_double(const std::string& field) const {
  return single<double>(node_, declared(type_, field, {FieldKind::kFloat}), 0.0, real_of);
}

float Params::get_float(const std::string& field) const {
  return static_cast<float>(get_double(field));
}

bool Params::get_bool(const std::string& field) const {
  return single<bool>(node_, declared(type_, field, {FieldKind::kBool}), false, bool_of);
}

std::string Params::get_string(const std::string& field) const {
  const Field& f = declared(type_, field, {FieldKind::kString});
  return single<std::string>(node_, f, "", text_of);
}

std::string Params::get_enum(const std::string& field) const {
  const Field& f = declared(type_, field, {FieldKind::kEnum});
  return single<std::string>(node_, f, "",
                             [&](const ParamNode& value) { return enum_of(f, value); });
}

std::vector<int64_t> Params::get_ints(const std::string& field) const {
  const Field& f = declared(type_, field, {FieldKind::kInt, FieldKind::kUint});
  return all<int64_t>(node_, f, integer_of);
}

std::vector<float> Params::get_floats(const std::string& field) const {
  return all<float>(node_, declared(type_, field, {FieldKind::kFloat}),
                    [](const ParamNode& value) { return static_cast<float>(real_of(value)); });
}

std::vector<std::string> Params::get_strings(const std::string& field) const {
  return all<std::string>(node_, declared(type_, field, {FieldKind::kString}), text_of);
}

Params Params::message(const std::string& field) const {
  const Field& f = declared(type_, field, {FieldKind::kMessage});
  const ParamNode* child = node_ ? node_->find(field) : nullptr;
  if (child) check_or_fail(f, *child);
  return {child, f.message};
}

std::vector<Params> Params::messages(const std::string& field) const {
  const Field& f = declared(type_, field, {FieldKind::kMessage});
  std::vector<Params> out;
  if (!node_) return out;
  for (const ParamNode* child : node_->find_all(field)) {
    check_or_fail(f, *child);
    out.emplace_back(child, f.message);
  }
  return out;
}

Position Params::where(const std::string& field) const {
  declared(type_, field, {});
  const ParamNode* child = node_ ? node_->find(field) : nullptr;
  if (!child) return where();
  return child->is_message() || child->value_where.line == 0 ? child->where : child->value_where;
}

Position Params::where() const { return node_ ? node_->where : Position(); }

}  // namespace kinet
