#include "layers/sigmoid_cross_entropy_loss.h"

#include <algorithm>
#include <cmath>

#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

LayerType SigmoidCrossEntropyLoss::describe() {
  LayerType type;
  type.type = "SigmoidCrossEntropyLoss";
  type.help = "logistic loss of yes-or-no questions";
  type.fields = {message_field("loss_param", loss_fields(),
                               "ignored label and normalisation (default here: BATCH_SIZE)")};
  type.min_bottoms = type.max_bottoms = 2;
  type.is_loss = true;
  type.label_bottoms = {1};
  return type;
}

void SigmoidCrossEntropyLoss::set_up(const std::vector<Shape>&) {
  options_ = read_loss(params("loss_param"), Normalization::kBatchSize);
}

std::vector<Shape> SigmoidCrossEntropyLoss::reshape(const std::vector<Shape>& bottoms,
                                                    WorkspacePlan&) {
  if (bottoms[0].count() != bottoms[1].count()) {
    fail_here(fmt::format("scores of shape {} need as many targets, not shape {}", bottoms[0].str(),
                          bottoms[1].str()));
  }
  samples_ = bottoms[0].num();
  return {Shape{}};
}

void SigmoidCrossEntropyLoss::forward(const Context&, Tensors bottoms, Tensors tops) {
  const float *x = bottoms[0]->data(), *t = bottoms[1]->data();
  const int64_t count = bottoms[0]->count();
  double total = 0;
  int64_t valid = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (ignored(t[i])) continue;
    ++valid;
    const double score = x[i];
    total += (score > 0 ? score : 0) - score * t[i] + std::log1p(std::exp(-std::abs(score)));
  }
  divisor_ = options_.divisor(samples_, count, valid);
  tops[0]->data()[0] = static_cast<float>(total / divisor_);
}

void SigmoidCrossEntropyLoss::backward(const Context& context, Tensors tops, Tensors bottoms,
                                       const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const float *x = bottoms[0]->data(), *t = bottoms[1]->data();
  float* dx = bottoms[0]->diff();
  const auto scale = static_cast<float>(tops[0]->diff()[0] / divisor_);
  parallel_elements(context.threads, bottoms[0]->count(), [&](int64_t begin, int64_t end, int) {
    vec().sigmoid(end - begin, x + begin, dx + begin);
    for (int64_t i = begin; i < end; ++i) dx[i] = ignored(t[i]) ? 0 : scale * (dx[i] - t[i]);
  });
}

KINET_REGISTER_LAYER(SigmoidCrossEntropyLoss);

}  // namespace kinet
