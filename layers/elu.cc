#include "layers/elu.h"

#include <cmath>

#include "src/base/parallel.h"

namespace kinet {
namespace {

const MessageType& elu_fields() {
  static const MessageType type{"elu_param",
                                "the level of the negative side",
                                {float_field("alpha", "1", "-y for x -> -inf")}};
  return type;
}

}  // namespace

LayerType Elu::describe() {
  LayerType type;
  type.type = "ELU";
  type.help = "x for x > 0, alpha (exp(x) - 1) elsewhere";
  type.fields = {message_field("elu_param", elu_fields(), "of ELU")};
  type.in_place = true;
  return type;
}

void Elu::set_up(const std::vector<Shape>&) { alpha_ = params("elu_param").get_float("alpha"); }

void Elu::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* x = bottoms[0]->data();
  float* y = tops[0]->data();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] > 0 ? x[i] : alpha_ * std::expm1(x[i]);
  });
}

void Elu::backward(const Context& context, Tensors tops, Tensors bottoms,
                   const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const float *y = tops[0]->data(), *dy = tops[0]->diff();
  const float* sign = alpha_ < 0 ? bottoms[0]->data() : y;
  float* dx = bottoms[0]->diff();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) dx[i] = sign[i] > 0 ? dy[i] : dy[i] * (y[i] + alpha_);
  });
}

KINET_REGISTER_LAYER(Elu);

}  // namespace kinet
