#include "src/solver/overrides.h"

#include <fmt/core.h>

#include "src/base/text.h"

namespace kinet {
namespace {

// "a,b" of a repeated field are two values, and so is "[a, b]".
std::vector<std::string> values_of(std::string text, bool repeated) {
  if (!repeated) return {text};
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  std::vector<std::string> values;
  size_t begin = 0;
  for (size_t comma; (comma = text.find(',', begin)) != std::string::npos; begin = comma + 1) {
    values.push_back(text.substr(begin, comma - begin));
  }
  values.push_back(text.substr(begin));
  return values;
}

// A flag has no lines: messages name the flag alone.
void forget_line(ParamNode& node) {
  node.where.line = node.value_where.line = 0;
  for (ParamNode& child : node.children) forget_line(child);
}

// Adds `field: value` to `owner` as the parser would read it; strings may lack their quotes.
void add_value(const Field& field, std::string value, const std::string& assignment,
               ParamNode& owner, Diagnostics& diagnostics) {
  const bool quoted = !value.empty() && (value.front() == '"' || value.front() == '\'');
  if (field.kind == FieldKind::kString && !quoted) {
    owner.add_string(field.name, value);
    return;
  }
  const std::string text = field.name + (field.kind == FieldKind::kMessage ? " " : ": ") + value;
  const std::string flag = "--set " + assignment;
  Diagnostics found;
  ParamNode parsed = parse_prototxt(text, flag, found);
  for (const std::string& error : found.errors()) {
    diagnostics.error({}, flag + error.substr(error.find(": ", flag.size())));
  }
  for (ParamNode& child : parsed.children) {
    forget_line(child);
    owner.children.push_back(std::move(child));
  }
}

}  // namespace

void apply_override(const std::string& assignment, const MessageType& type, ParamNode& root,
                    Diagnostics& diagnostics) {
  const size_t equals = assignment.find('=');
  const auto error = [&](const std::string& message) {
    diagnostics.error({}, fmt::format("--set {}: {}", assignment, message));
  };
  if (equals == std::string::npos || equals == 0) return error("wants the form field=value");
  std::string key = assignment.substr(0, equals);
  const MessageType* message = &type;
  ParamNode* owner = &root;
  for (;;) {
    const size_t dot = key.find('.');
    const std::string name = key.substr(0, dot);
    const Field* field = message->find(name);
    if (field == nullptr) {
      return error(fmt::format("{} has no field '{}'{}", message->name, name,
                               did_you_mean(name, message->field_names())));
    }
    if (dot == std::string::npos) {
      owner->erase(name);
      for (const std::string& value : values_of(assignment.substr(equals + 1), field->repeated)) {
        add_value(*field, value, assignment, *owner, diagnostics);
      }
      return;
    }
    if (field->message == nullptr || field->repeated) {
      return error(fmt::format("field '{}' has no fields of its own to set", name));
    }
    ParamNode* child = owner->find(name);
    owner = child != nullptr ? child : &owner->add_message(name);
    message = field->message;
    key = key.substr(dot + 1);
  }
}

}  // namespace kinet
