#include "layers/softmax_with_loss.h"

#include <algorithm>
#include <cmath>

#include "layers/softmax.h"
#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

LayerType SoftmaxWithLoss::describe() {
  LayerType type;
  type.type = "SoftmaxWithLoss";
  type.help = "softmax and multinomial logistic loss";
  type.fields = {message_field("softmax_param", softmax_fields(), "the axis of the classes"),
                 message_field("loss_param", loss_fields(), "ignored label and normalisation")};
  type.min_bottoms = type.max_bottoms = 2;
  type.max_tops = 2;
  type.is_loss = true;
  type.label_bottoms = {1};
  return type;
}

void SoftmaxWithLoss::set_up(const std::vector<Shape>&) {
  axis_ = params("softmax_param").get_int32("axis");
  options_ = read_loss(params("loss_param"), Normalization::kValid);
}

std::vector<Shape> SoftmaxWithLoss::reshape(const std::vector<Shape>& bottoms,
                                            WorkspacePlan& plan) {
  const Shape& scores = bottoms[0];
  const int axis = scores.canonical_axis(axis_, "layer '" + name() + "': axis");
  outer_ = scores.count(0, axis);
  classes_ = scores[axis];
  inner_ = scores.count(axis + 1);
  if (bottoms[1].count() != outer_ * inner_) {
    fail_here(fmt::format("scores of shape {} need {} labels (classes on axis {}), not shape {}",
                          scores.str(), outer_ * inner_, axis, bottoms[1].str()));
  }
  plan.saved(prob_, scores.count());
  losses_.resize(outer_);
  std::vector<Shape> tops{Shape{}};
  if (top_count() > 1) tops.push_back(scores);
  return tops;
}

// Sum of -log p_label over the positions of one sample: log s + m - x_label.
double SoftmaxWithLoss::sample_loss(int64_t sample, const float* x, const float* max,
                                    const float* sum) const {
  double loss = 0;
  for (int64_t i = 0; i < inner_; ++i) {
    const int label = labels_[sample * inner_ + i];
    if (label == kIgnored) continue;
    loss += std::log(static_cast<double>(sum[i])) +
            (static_cast<double>(max[i]) - x[label * inner_ + i]);
  }
  return loss;
}

void SoftmaxWithLoss::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const auto labels = static_cast<size_t>(bottoms[1]->count());
  read_labels(fmt::format("{}: layer '{}' ({})", where().str(), name(), type().type),
              {bottoms[1]->data(), labels}, inner_, classes_, options_.ignore_label, labels_);
  const float* x = bottoms[0]->data();
  const int64_t slab = classes_ * inner_;
  parallel_elements(
      context.threads, outer_,
      [&](int64_t begin, int64_t end, int) {
        std::vector<float> scratch(2 * inner_);
        float *max = scratch.data(), *sum = max + inner_;
        for (int64_t o = begin; o < end; ++o) {
          softmax_slab(classes_, inner_, x + o * slab, prob_.data() + o * slab, max, sum);
          losses_[o] = sample_loss(o, x + o * slab, max, sum);
        }
      },
      std::max<int64_t>(1, 4096 / slab));
  const auto ignored = std::count(labels_.begin(), labels_.end(), kIgnored);
  divisor_ = options_.divisor(outer_, outer_ * inner_, outer_ * inner_ - ignored);
  double total = 0;
  for (double loss : losses_) total += loss;
  tops[0]->data()[0] = static_cast<float>(total / divisor_);
  if (tops.size() > 1) std::copy_n(prob_.data(), outer_ * slab, tops[1]->data());
}

void SoftmaxWithLoss::backward(const Context& context, Tensors tops, Tensors bottoms,
                               const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const auto scale = static_cast<float>(tops[0]->diff()[0] / divisor_);
  float* dx = bottoms[0]->diff();
  const int64_t slab = classes_ * inner_;
  const auto part = [&](int64_t begin, int64_t end, int) {
    vec().scale((end - begin) * slab, scale, prob_.data() + begin * slab, dx + begin * slab);
    for (int64_t p = begin * inner_; p < end * inner_; ++p) {
      float* at = dx + p / inner_ * slab + p % inner_;
      if (labels_[p] != kIgnored) {
        at[labels_[p] * inner_] -= scale;
      } else {
        for (int64_t c = 0; c < classes_; ++c) at[c * inner_] = 0;
      }
    }
  };
  parallel_elements(context.threads, outer_, part, std::max<int64_t>(1, 16384 / slab));
}

KINET_REGISTER_LAYER(SoftmaxWithLoss);

}  // namespace kinet
