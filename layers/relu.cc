#include "layers/relu.h"

#include "layers/engine_field.h"
#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

const MessageType& relu_fields() {
  static const MessageType type{
      "relu_param",
      "the slope of the negative side",
      {float_field("negative_slope", "0", "slope for x < 0"), engine_field()}};
  return type;
}

}  // namespace

LayerType Relu::describe() {
  LayerType type;
  type.type = "ReLU";
  type.help = "max(x, 0), or leaky with negative_slope";
  type.fields = {message_field("relu_param", relu_fields(), "of ReLU")};
  type.in_place = true;
  return type;
}

void Relu::set_up(const std::vector<Shape>&) {
  slope_ = params("relu_param").get_float("negative_slope");
}

BackwardNeeds Relu::needs() const { return {.bottom_data = slope_ < 0, .top_data = slope_ >= 0}; }

void Relu::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* x = bottoms[0]->data();
  float* y = tops[0]->data();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    vec().relu(end - begin, slope_, x + begin, y + begin);
  });
}

void Relu::backward(const Context& context, Tensors tops, Tensors bottoms,
                    const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const float* sign = slope_ < 0 ? bottoms[0]->data() : tops[0]->data();
  const float* dy = tops[0]->diff();
  float* dx = bottoms[0]->diff();
  parallel_elements(context.threads, tops[0]->count(), [&](int64_t begin, int64_t end, int) {
    vec().relu_grad(end - begin, slope_, sign + begin, dy + begin, dx + begin);
  });
}

KINET_REGISTER_LAYER(Relu);

}  // namespace kinet
