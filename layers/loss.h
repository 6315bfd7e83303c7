// What the losses and metrics share: loss_param and the reading of class labels.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/prototxt/fields.h"

namespace kinet {

// By what the sum of the losses is divided:
//   kFull       all positions, ignored ones too
//   kValid      positions that are not ignored (at least 1)
//   kBatchSize  samples
//   kNone       1
enum class Normalization { kFull, kValid, kBatchSize, kNone };

struct LossOptions {
  std::optional<int> ignore_label;
  Normalization normalization = Normalization::kValid;

  double divisor(int64_t samples, int64_t positions, int64_t valid) const;
  std::string summary() const;  // "normalization VALID, ignore_label 255"
};

const MessageType& loss_fields();

// `fallback` is used when neither normalization nor the old `normalize` (true: VALID, false:
// BATCH_SIZE) is given.
LossOptions read_loss(const Params& loss_param, Normalization fallback);

constexpr int kIgnored = -1;

// Labels, as the data gives them, turned into class numbers in [0, classes) or kIgnored.
// Label i belongs to sample i / inner. Throws a run-time Error that begins with `owner` and names
// the sample, the label and the allowed range.
void read_labels(const std::string& owner, std::span<const float> labels, int64_t inner,
                 int64_t classes, const std::optional<int>& ignore_label, std::vector<int>& out);

}  // namespace kinet
