#include "layers/euclidean_loss.h"

#include <algorithm>

#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

LayerType EuclideanLoss::describe() {
  LayerType type;
  type.type = "EuclideanLoss";
  type.help = "half the mean squared distance";
  type.min_bottoms = type.max_bottoms = 2;
  type.is_loss = true;
  return type;
}

std::vector<Shape> EuclideanLoss::reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) {
  const Shape &a = bottoms[0], &b = bottoms[1];
  if (a.num() != b.num() || a.count() != b.count()) {
    fail_here(fmt::format("bottoms of shape {} and {} do not match", a.str(), b.str()));
  }
  samples_ = a.num();
  plan.temporary(difference_, a.count());
  return {Shape{}};
}

void EuclideanLoss::forward(const Context&, Tensors bottoms, Tensors tops) {
  const int64_t n = bottoms[0]->count();
  vec().sub(n, bottoms[0]->data(), bottoms[1]->data(), difference_.data());
  const double squares = vec().sum_squares(n, difference_.data());
  tops[0]->data()[0] = static_cast<float>(squares / (2 * static_cast<double>(samples_)));
}

void EuclideanLoss::backward(const Context& context, Tensors tops, Tensors bottoms,
                             const BackwardMask& mask) {
  const auto scale = static_cast<float>(tops[0]->diff()[0] / static_cast<double>(samples_));
  for (int side : {0, 1}) {
    if (!mask.bottom[side]) continue;
    const float *own = bottoms[side]->data(), *other = bottoms[1 - side]->data();
    float* dx = bottoms[side]->diff();
    parallel_elements(context.threads, bottoms[side]->count(),
                      [&](int64_t begin, int64_t end, int) {
                        vec().sub(end - begin, own + begin, other + begin, dx + begin);
                        vec().scale(end - begin, scale, dx + begin, dx + begin);
                      });
  }
}

KINET_REGISTER_LAYER(EuclideanLoss);

}  // namespace kinet
