#include "layers/tanh.h"

#include "layers/engine_field.h"
#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

const MessageType& tanh_fields() {
  static const MessageType type{"tanh_param", "nothing to choose", {engine_field()}};
  return type;
}

}  // namespace

LayerType TanH::describe() {
  LayerType type;
  type.type = "TanH";
  type.help = "the hyperbolic tangent";
  type.fields = {message_field("tanh_param", tanh_fields(), "of TanH")};
  type.in_place = true;
  return type;
}

void TanH::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* x = bottoms[0]->data();
  float* y = tops[0]->data();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    vec().tanh(end - begin, x + begin, y + begin);
  });
}

void TanH::backward(const Context& context, Tensors tops, Tensors bottoms,
                    const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const float *y = tops[0]->data(), *dy = tops[0]->diff();
  float* dx = bottoms[0]->diff();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
  });
}

KINET_REGISTER_LAYER(TanH);

}  // namespace kinet
