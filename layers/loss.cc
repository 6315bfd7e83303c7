#include "layers/loss.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr const char* kNames[] = {"FULL", "VALID", "BATCH_SIZE", "NONE"};

[[noreturn]] void bad_label(const std::string& owner, int64_t index, int64_t inner, float label,
                            int64_t classes) {
  const std::string position =
      inner > 1 ? fmt::format(", position {}", index % inner) : std::string();
  fail_runtime(
      "{}: item {} of the batch{} has label {}, allowed are the whole numbers 0 to {} ({} "
      "classes)\nhint: classes count from 0; labels to be left out are named by ignore_label",
      owner, index / inner, position, label, classes - 1, classes);
}

}  // namespace

const MessageType& loss_fields() {
  static const MessageType type{
      "loss_param",
      "what is left out of a loss and by what it is divided",
      {int_field("ignore_label", "", "positions with this label count nothing"),
       enum_field("normalization", {{"FULL", 0}, {"VALID", 1}, {"BATCH_SIZE", 2}, {"NONE", 3}},
                  "VALID", "divide by: all positions, those not ignored, samples, 1"),
       bool_field("normalize", "", "old form: true = VALID, false = BATCH_SIZE")}};
  return type;
}

LossOptions read_loss(const Params& p, Normalization fallback) {
  LossOptions options;
  options.normalization = fallback;
  if (p.has("ignore_label")) options.ignore_label = p.get_int32("ignore_label");
  if (p.has("normalization")) {
    const std::string name = p.get_enum("normalization");
    const auto at = std::find(std::begin(kNames), std::end(kNames), name) - std::begin(kNames);
    options.normalization = static_cast<Normalization>(at);
  } else if (p.has("normalize")) {
    options.normalization =
        p.get_bool("normalize") ? Normalization::kValid : Normalization::kBatchSize;
  }
  return options;
}

double LossOptions::divisor(int64_t samples, int64_t positions, int64_t valid) const {
  const int64_t by[] = {positions, valid, samples, 1};
  return static_cast<double>(std::max<int64_t>(1, by[static_cast<int>(normalization)]));
}

std::string LossOptions::summary() const {
  std::string text = fmt::format("normalization {}", kNames[static_cast<int>(normalization)]);
  if (ignore_label) text += fmt::format(", ignore_label {}", *ignore_label);
  return text;
}

void read_labels(const std::string& owner, std::span<const float> labels, int64_t inner,
                 int64_t classes, const std::optional<int>& ignore_label, std::vector<int>& out) {
  out.resize(labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const float label = labels[i];
    if (ignore_label && label == static_cast<float>(*ignore_label)) {
      out[i] = kIgnored;
    } else if (label >= 0 && label < static_cast<float>(classes) && label == std::floor(label)) {
      out[i] = static_cast<int>(label);
    } else {
      bad_label(owner, static_cast<int64_t>(i), inner, label, classes);
    }
  }
}

}  // namespace kinet
