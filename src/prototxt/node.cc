// Trees: looking up, building, printing; and the list of what is wrong with a file.
#include "src/prototxt/node.h"

#include <fmt/core.h>

#include <algorithm>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/prototxt/escape.h"

namespace kinet {
namespace {

std::string located(const Position& where, const std::string& message) {
  const std::string place = where.str();
  return place.empty() ? message : place + ": " + message;
}

}  // namespace

std::string Position::str() const {
  if (!file) return "";
  return line == 0 ? *file : fmt::format("{}:{}:{}", *file, line, column);
}

const ParamNode* ParamNode::find(std::string_view wanted) const {
  const auto it = std::find_if(children.rbegin(), children.rend(),
                               [&](const ParamNode& child) { return child.name == wanted; });
  return it == children.rend() ? nullptr : &*it;
}

ParamNode* ParamNode::find(std::string_view wanted) {
  return const_cast<ParamNode*>(std::as_const(*this).find(wanted));
}

std::vector<const ParamNode*> ParamNode::find_all(std::string_view wanted) const {
  std::vector<const ParamNode*> found;
  for (const ParamNode& child : children) {
    if (child.name == wanted) found.push_back(&child);
  }
  return found;
}

ParamNode& ParamNode::add_message(std::string field) {
  ParamNode& child = children.emplace_back();
  child.name = std::move(field);
  return child;
}

ParamNode& ParamNode::add_string(std::string field, std::string value) {
  ParamNode& child = add_message(std::move(field));
  child.kind = Kind::kString;
  child.text = std::move(value);
  return child;
}

ParamNode& ParamNode::add_scalar(std::string field, std::string value) {
  ParamNode& child = add_message(std::move(field));
  const char first = value.empty() ? '\0' : value[0];
  const bool number = (first >= '0' && first <= '9') || first == '-' || first == '.';
  child.kind = number ? Kind::kNumber : Kind::kIdentifier;
  child.text = std::move(value);
  return child;
}

void ParamNode::erase(std::string_view unwanted) {
  std::erase_if(children, [&](const ParamNode& child) { return child.name == unwanted; });
}

std::string ParamNode::to_text(int indent) const {
  const bool root = is_message() && name.empty();
  const std::string margin(static_cast<size_t>(2 * indent), ' ');
  if (!is_message()) {
    return fmt::format("{}{}: {}\n", margin, name, kind == Kind::kString ? quoted(text) : text);
  }
  std::string out = root ? "" : margin + name + " {\n";
  for (const ParamNode& child : children) out += child.to_text(root ? indent : indent + 1);
  return root ? out : out + margin + "}\n";
}

void Diagnostics::error(const Position& where, const std::string& message) {
  errors_.push_back(located(where, message));
}

void Diagnostics::note(const Position& where, const std::string& message) {
  notes_.push_back(located(where, message));
}

void Diagnostics::note_once(const std::string& subject, const Position& where,
                            const std::string& message) {
  if (subjects_.insert((where.file ? *where.file : "") + '\n' + subject).second) {
    note(where, message);
  }
}

void Diagnostics::throw_if_any() const {
  if (!ok()) throw Error(join(errors_, "\n"));
}

}  // namespace kinet
