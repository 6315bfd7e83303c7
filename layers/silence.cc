#include "layers/silence.h"

#include <algorithm>

namespace kinet {

LayerType Silence::describe() {
  LayerType type;
  type.type = "Silence";
  type.help = "reads blobs that nobody else reads";
  type.max_bottoms = -1;
  type.min_tops = 0;
  type.max_tops = 0;
  return type;
}

void Silence::backward(const Context&, Tensors, Tensors bottoms, const BackwardMask& mask) {
  for (size_t b = 0; b < bottoms.size(); ++b) {
    if (mask.bottom[b]) std::fill_n(bottoms[b]->diff(), bottoms[b]->count(), 0.0f);
  }
}

KINET_REGISTER_LAYER(Silence);

}  // namespace kinet
