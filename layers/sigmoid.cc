#include "layers/sigmoid.h"

#include "layers/engine_field.h"
#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

const MessageType& sigmoid_fields() {
  static const MessageType type{"sigmoid_param", "nothing to choose", {engine_field()}};
  return type;
}

}  // namespace

LayerType Sigmoid::describe() {
  LayerType type;
  type.type = "Sigmoid";
  type.help = "1 / (1 + exp(-x))";
  type.fields = {message_field("sigmoid_param", sigmoid_fields(), "of Sigmoid")};
  type.in_place = true;
  return type;
}

void Sigmoid::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* x = bottoms[0]->data();
  float* y = tops[0]->data();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    vec().sigmoid(end - begin, x + begin, y + begin);
  });
}

void Sigmoid::backward(const Context& context, Tensors tops, Tensors bottoms,
                       const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const float *y = tops[0]->data(), *dy = tops[0]->diff();
  float* dx = bottoms[0]->diff();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) dx[i] = dy[i] * y[i] * (1 - y[i]);
  });
}

KINET_REGISTER_LAYER(Sigmoid);

}  // namespace kinet
