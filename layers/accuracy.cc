#include "layers/accuracy.h"

#include <algorithm>
#include <cmath>

namespace kinet {
namespace {

const MessageType& accuracy_fields() {
  static const MessageType type{
      "accuracy_param",
      "what counts as right",
      {uint_field("top_k", "1", "right when the label is among this many best scores"),
       int_field("axis", "1", "the axis of the classes; negative counts from the end"),
       int_field("ignore_label", "", "positions with this label are left out")}};
  return type;
}

}  // namespace

LayerType Accuracy::describe() {
  LayerType type;
  type.type = "Accuracy";
  type.help = "share of positions whose label is among the best scores";
  type.fields = {message_field("accuracy_param", accuracy_fields(), "of Accuracy")};
  type.min_bottoms = type.max_bottoms = 2;
  type.max_tops = 2;
  type.host_ok = true;
  type.label_bottoms = {1};
  return type;
}

void Accuracy::set_up(const std::vector<Shape>&) {
  const Params p = params("accuracy_param");
  top_k_ = p.get_int("top_k");
  axis_ = p.get_int32("axis");
  if (p.has("ignore_label")) ignore_label_ = p.get_int32("ignore_label");
  if (top_k_ < 1) fail_here("top_k must be at least 1");
}

std::vector<Shape> Accuracy::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  const Shape& scores = bottoms[0];
  const int axis = scores.canonical_axis(axis_, "layer '" + name() + "': axis");
  outer_ = scores.count(0, axis);
  classes_ = scores[axis];
  inner_ = scores.count(axis + 1);
  if (top_k_ > classes_) fail_here(fmt::format("top_k {} of {} classes", top_k_, classes_));
  if (bottoms[1].count() != outer_ * inner_) {
    fail_here(fmt::format("scores of shape {} need {} labels (classes on axis {}), not shape {}",
                          scores.str(), outer_ * inner_, axis, bottoms[1].str()));
  }
  std::vector<Shape> tops{Shape{}};
  if (top_count() > 1) tops.push_back(Shape{classes_});
  return tops;
}

std::string Accuracy::summary() const {
  std::string text = top_k_ > 1 ? fmt::format("top_k {}", top_k_) : "";
  if (ignore_label_)
    text += fmt::format("{}ignore_label {}", text.empty() ? "" : ", ", *ignore_label_);
  return text;
}

// `scores` is the first class of the position; classes are inner_ apart.
bool Accuracy::is_right(const float* scores, int label) const {
  const float own = scores[label * inner_];
  if (std::isnan(own)) return false;
  int64_t ahead = -1;  // the label itself is counted below
  for (int64_t c = 0; c < classes_; ++c) ahead += !(scores[c * inner_] < own);
  return ahead < top_k_;
}

void Accuracy::forward(const Context&, Tensors bottoms, Tensors tops) {
  const int64_t positions = outer_ * inner_;
  read_labels(fmt::format("{}: layer '{}' ({})", where().str(), name(), type().type),
              {bottoms[1]->data(), static_cast<size_t>(positions)}, inner_, classes_, ignore_label_,
              labels_);
  std::vector<int64_t> right(classes_), seen(classes_);
  for (int64_t p = 0; p < positions; ++p) {
    const int label = labels_[p];
    if (label == kIgnored) continue;
    const float* scores = bottoms[0]->data() + p / inner_ * classes_ * inner_ + p % inner_;
    ++seen[label];
    right[label] += is_right(scores, label);
  }
  const auto share = [](int64_t part, int64_t all) {
    return all > 0 ? static_cast<float>(static_cast<double>(part) / static_cast<double>(all)) : 0;
  };
  int64_t all_right = 0, all = 0;
  for (int64_t c = 0; c < classes_; ++c) {
    all_right += right[c];
    all += seen[c];
    if (tops.size() > 1) tops[1]->data()[c] = share(right[c], seen[c]);
  }
  tops[0]->data()[0] = share(all_right, all);
}

KINET_REGISTER_LAYER(Accuracy);

}  // namespace kinet
