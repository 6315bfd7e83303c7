// Paths written in prototxt files.
#include <filesystem>

#include "src/prototxt/fields.h"

namespace kinet {
namespace fs = std::filesystem;
namespace {

bool is_there(const fs::path& path) {
  std::error_code ignored;  // a folder that may not be searched holds nothing for us
  return fs::exists(path, ignored);
}

// Relative to the folder of the file that it is written in; empty when that is no other place.
fs::path beside_file(const std::string& written, const Position& where) {
  if (written.empty() || !where.file || fs::path(written).is_absolute()) return {};
  const fs::path folder = fs::path(*where.file).parent_path();
  return folder.empty() ? fs::path() : folder / written;
}

std::string full_path(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  return (error ? path : full).lexically_normal().string();
}

}  // namespace

std::string resolve_path(const std::string& written, const Position& where) {
  const fs::path beside = beside_file(written, where);
  return !beside.empty() && is_there(beside) ? beside.string() : written;
}

std::string describe_path(const std::string& written, const Position& where) {
  std::string name = "'" + written + "'";
  if (written.empty() || fs::path(written).is_absolute()) return name;
  const fs::path beside = beside_file(written, where);
  const std::string second = full_path(written);
  const std::string first = beside.empty() ? second : full_path(beside);
  return name + " (looked for at " + first + (second == first ? ")" : " and " + second + ")");
}

void make_paths_absolute(ParamNode& node, const MessageType& type) {
  for (ParamNode& child : node.children) {
    const Field* field = type.find(child.name);
    if (field == nullptr) continue;
    if (field->message != nullptr) make_paths_absolute(child, *field->message);
    if (!field->is_path || child.text.empty()) continue;
    child.text = full_path(resolve_path(child.text, child.where));
  }
}

}  // namespace kinet
