// A tree against the declarations: all that is wrong is gathered, nothing is changed.
#include <fmt/core.h>

#include <cmath>
#include <map>

#include "src/base/text.h"
#include "src/prototxt/fields.h"
#include "src/prototxt/value.h"

namespace kinet {
namespace {

constexpr size_t kShortList = 8;  // fields: so many are listed when no name is near

std::string unknown_field(const std::string& name, const MessageType& type) {
  const std::vector<std::string> names = type.field_names();
  std::string hint = did_you_mean(name, names);
  if (hint.empty() && !names.empty() && names.size() <= kShortList) {
    hint = fmt::format(" (its fields: {})", join(names, ", "));
  }
  return fmt::format("unknown field '{}'{}", name, hint);
}

bool same_place(const Position& a, const Position& b) {
  return a.line == b.line && a.column == b.column && a.line != 0;
}

// The values of [a, b] stand at one name.
std::string given_twice(const ParamNode& first, const ParamNode& second) {
  if (same_place(first.where, second.where)) {
    return fmt::format("field '{}' takes one value, not a list", second.name);
  }
  const std::string place = first.where.str();
  return fmt::format("field '{}' is given twice{}", second.name,
                     place.empty() ? "" : ", first at " + place);
}

// The text format can write inf and nan, but no formula of a net or a solver has a use for them.
std::string not_finite(const Field& field, const ParamNode& value) {
  if (field.kind != FieldKind::kFloat || std::isfinite(real_of(value))) return "";
  return fmt::format("field '{}' wants a finite number, not {}", field.name, value.text);
}

std::string problem_of(const Field& field, const ParamNode& value) {
  const std::string problem = check_value(field, value);
  return problem.empty() ? not_finite(field, value) : problem;
}

}  // namespace

void validate(const ParamNode& node, const MessageType& type, const std::string& context,
              Diagnostics& diagnostics) {
  const std::string prefix = context.empty() ? "" : context + ": ";
  const auto within = [&](const std::string& name) {
    return context.empty() ? name : context + ", " + name;
  };
  std::map<std::string, const ParamNode*> first;
  for (const ParamNode& child : node.children) {
    const Field* field = type.find(child.name);
    if (!field) {
      diagnostics.error(child.where, prefix + unknown_field(child.name, type));
      continue;
    }
    const auto [seen, is_first] = first.emplace(child.name, &child);
    if (!is_first && !field->repeated) {
      diagnostics.error(child.where, prefix + given_twice(*seen->second, child));
    } else if (field->no_effect) {
      diagnostics.note_once("no effect: " + field->name, child.where,
                            fmt::format("field '{}' has no effect in kinet", field->name));
    } else if (const std::string problem = problem_of(*field, child); !problem.empty()) {
      diagnostics.error(child.value_where, prefix + problem);
    } else if (child.is_message() && field->message) {
      validate(child, *field->message, within(child.name), diagnostics);
    }
  }
}

}  // namespace kinet
