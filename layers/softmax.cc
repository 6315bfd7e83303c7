#include "layers/softmax.h"

#include <algorithm>

#include "layers/engine_field.h"
#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

// dx from y and dy of one slab; dot has room for inner values.
void softmax_slab_grad(int64_t classes, int64_t inner, const float* y, const float* dy, float* dx,
                       float* dot) {
  if (inner == 1) {
    dot[0] = static_cast<float>(vec().dot(classes, y, dy));
    vec().add_scalar(classes, -dot[0], dy, dx);
    vec().mul(classes, dx, y, dx);
    return;
  }
  std::fill_n(dot, inner, 0.0f);
  for (int64_t c = 0; c < classes; ++c) vec().mul_add(inner, y + c * inner, dy + c * inner, dot);
  for (int64_t c = 0; c < classes; ++c) {
    vec().sub(inner, dy + c * inner, dot, dx + c * inner);
    vec().mul(inner, dx + c * inner, y + c * inner, dx + c * inner);
  }
}

}  // namespace

const MessageType& softmax_fields() {
  static const MessageType type{
      "softmax_param",
      "along which axis",
      {int_field("axis", "1", "the axis of the classes; negative counts from the end"),
       engine_field()}};
  return type;
}

void softmax_slab(int64_t classes, int64_t inner, const float* x, float* y, float* max,
                  float* sum) {
  if (inner == 1) {
    max[0] = vec().max_value(classes, x);
    vec().add_scalar(classes, -max[0], x, y);
    vec().exp(classes, y, y);
    const double total = vec().sum(classes, y);
    sum[0] = static_cast<float>(total);
    vec().scale(classes, static_cast<float>(1 / total), y, y);
    return;
  }
  std::copy_n(x, inner, max);
  for (int64_t c = 1; c < classes; ++c) vec().max(inner, max, x + c * inner, max);
  std::fill_n(sum, inner, 0.0f);
  for (int64_t c = 0; c < classes; ++c) {
    float* row = y + c * inner;
    vec().sub(inner, x + c * inner, max, row);
    vec().exp(inner, row, row);
    vec().add(inner, sum, row, sum);
  }
  for (int64_t c = 0; c < classes; ++c) {
    float* row = y + c * inner;
    for (int64_t i = 0; i < inner; ++i) row[i] /= sum[i];
  }
}

LayerType Softmax::describe() {
  LayerType type;
  type.type = "Softmax";
  type.help = "scores to probabilities along one axis";
  type.fields = {message_field("softmax_param", softmax_fields(), "of Softmax")};
  type.in_place = true;
  return type;
}

void Softmax::set_up(const std::vector<Shape>&) {
  axis_ = params("softmax_param").get_int32("axis");
}

std::vector<Shape> Softmax::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  const int axis = bottoms[0].canonical_axis(axis_, "layer '" + name() + "': axis");
  outer_ = bottoms[0].count(0, axis);
  classes_ = bottoms[0][axis];
  inner_ = bottoms[0].count(axis + 1);
  return bottoms;
}

void Softmax::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* x = bottoms[0]->data();
  float* y = tops[0]->data();
  const int64_t slab = classes_ * inner_;
  parallel_elements(
      context.threads, outer_,
      [&](int64_t begin, int64_t end, int) {
        std::vector<float> scratch(2 * inner_);
        for (int64_t o = begin; o < end; ++o) {
          softmax_slab(classes_, inner_, x + o * slab, y + o * slab, scratch.data(),
                       scratch.data() + inner_);
        }
      },
      std::max<int64_t>(1, 4096 / slab));
}

void Softmax::backward(const Context& context, Tensors tops, Tensors bottoms,
                       const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const float *y = tops[0]->data(), *dy = tops[0]->diff();
  float* dx = bottoms[0]->diff();
  const int64_t slab = classes_ * inner_;
  parallel_elements(
      context.threads, outer_,
      [&](int64_t begin, int64_t end, int) {
        std::vector<float> dot(inner_);
        for (int64_t o = begin; o < end; ++o) {
          const int64_t at = o * slab;
          softmax_slab_grad(classes_, inner_, y + at, dy + at, dx + at, dot.data());
        }
      },
      std::max<int64_t>(1, 4096 / slab));
}

KINET_REGISTER_LAYER(Softmax);

}  // namespace kinet
