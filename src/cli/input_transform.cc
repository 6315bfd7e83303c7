#include "src/cli/input_transform.h"

#include <fmt/format.h>

#include "data/transform.h"
#include "src/base/text.h"

namespace kinet {
namespace {

std::string text_in(const ParamNode* message, const char* field) {
  const ParamNode* found = message == nullptr ? nullptr : message->find(field);
  return found == nullptr ? "" : found->text;
}

void add_flag(const std::string& flag, InputTransform& out) {
  out.flags += (out.flags.empty() ? "" : " ") + flag;
}

void add_mean(const Params& transform, InputTransform& out) {
  if (transform.has("mean_file")) {
    const std::string path =
        resolve_path(transform.get_string("mean_file"), transform.where("mean_file"));
    out.lines.push_back("subtract the mean image " + path + " (before the crop)");
    return add_flag("--mean " + path, out);
  }
  std::vector<std::string> values;
  for (const float value : transform.get_floats("mean_value")) {
    values.push_back(fmt::format("{}", value));
  }
  if (values.empty()) return;
  out.lines.push_back(fmt::format("subtract {}{}", join(values, ", "),
                                  values.size() == 3 ? " (blue, green, red)" : ""));
  add_flag("--mean " + join(values, ","), out);
}

}  // namespace

InputTransform describe_transform(const ParamNode& data) {
  InputTransform out;
  const Params transform(data.find("transform_param"), &transform_fields());
  out.lines.emplace_back("pixels from 0 to 255; of colour images blue first, then green, then red");
  const ParamNode* images = data.find("image_data_param");
  const std::string height = text_in(images, "new_height"), width = text_in(images, "new_width");
  if (!height.empty() && height != "0") {
    out.lines.push_back(fmt::format("resize to height {}, width {}", height, width));
  }
  add_mean(transform, out);
  if (const int64_t crop = transform.get_int("crop_size"); crop > 0) {
    out.lines.push_back(fmt::format("crop {} x {} from the centre", crop, crop));
  }
  if (const float scale = transform.get_float("scale"); scale != 1) {
    out.lines.push_back(fmt::format("multiply by {}", scale));
    add_flag(fmt::format("--scale {}", scale), out);
  }
  return out;
}

std::string transform_comment(const InputTransform& transform) {
  std::string out = "# The input, as the data layer of the training net makes it from an image:\n";
  for (const std::string& line : transform.lines) out += "#   " + line + "\n";
  if (!transform.flags.empty()) out += "# kinet classify does so with: " + transform.flags + "\n";
  return out;
}

}  // namespace kinet
