// Declarations: lookup and the short forms.
#include "src/prototxt/fields.h"

#include "src/base/check.h"

namespace kinet {
namespace {

Field make_field(FieldKind kind, std::string name, std::string default_value, std::string help) {
  Field field;
  field.name = std::move(name);
  field.kind = kind;
  field.default_value = std::move(default_value);
  field.help = std::move(help);
  return field;
}

}  // namespace

const Field* MessageType::find(const std::string& field) const {
  for (const Field& candidate : fields) {
    if (candidate.name == field) return &candidate;
  }
  return nullptr;
}

std::vector<std::string> MessageType::field_names() const {
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(field.name);
  return names;
}

Field int_field(std::string name, std::string default_value, std::string help) {
  return make_field(FieldKind::kInt, std::move(name), std::move(default_value), std::move(help));
}

Field uint_field(std::string name, std::string default_value, std::string help) {
  return make_field(FieldKind::kUint, std::move(name), std::move(default_value), std::move(help));
}

Field float_field(std::string name, std::string default_value, std::string help) {
  return make_field(FieldKind::kFloat, std::move(name), std::move(default_value), std::move(help));
}

Field bool_field(std::string name, std::string default_value, std::string help) {
  return make_field(FieldKind::kBool, std::move(name), std::move(default_value), std::move(help));
}

Field string_field(std::string name, std::string default_value, std::string help) {
  return make_field(FieldKind::kString, std::move(name), std::move(default_value), std::move(help));
}

Field path_field(std::string name, std::string help) {
  Field field = string_field(std::move(name), "", std::move(help));
  field.is_path = true;
  return field;
}

Field enum_field(std::string name, std::vector<EnumValue> values, std::string default_value,
                 std::string help) {
  Field field =
      make_field(FieldKind::kEnum, std::move(name), std::move(default_value), std::move(help));
  field.values = std::move(values);
  return field;
}

Field message_field(std::string name, const MessageType& type, std::string help) {
  Field field = make_field(FieldKind::kMessage, std::move(name), "", std::move(help));
  field.message = &type;
  return field;
}

Field repeated(Field field) {
  field.repeated = true;
  return field;
}

Field wide(Field field) {
  field.wide = true;
  return field;
}

Field no_effect(Field field) {
  field.no_effect = true;
  return field;
}

void fail_at(const Position& where, const std::string& message) {
  const std::string place = where.str();
  throw Error(place.empty() ? message : place + ": " + message);
}

}  // namespace kinet
