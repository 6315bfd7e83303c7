#include "layers/split.h"

#include <algorithm>

#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

LayerType Split::describe() {
  LayerType type;
  type.type = "Split";
  type.help = "gives one bottom to several readers (inserted by itself where a net needs it)";
  type.max_tops = -1;
  type.refuses_in_place = true;
  type.top_memory = TopMemory::kSharesData;
  return type;
}

void Split::backward(const Context& context, Tensors tops, Tensors bottoms,
                     const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  std::vector<const float*> dy;
  for (const Tensor* top : tops) {
    if (top->has_diff()) dy.push_back(top->diff());
  }
  float* dx = bottoms[0]->diff();
  parallel_elements(context.threads, bottoms[0]->count(), [&](int64_t begin, int64_t end, int) {
    const int64_t n = end - begin;
    if (dy.size() >= 2) {
      vec().add(n, dy[0] + begin, dy[1] + begin, dx + begin);
    } else if (dy.size() == 1) {
      std::copy_n(dy[0] + begin, n, dx + begin);
    } else {
      std::fill_n(dx + begin, n, 0.0f);
    }
    for (size_t i = 2; i < dy.size(); ++i) {
      vec().add(n, dx + begin, dy[i] + begin, dx + begin);
    }
  });
}

KINET_REGISTER_LAYER(Split);

}  // namespace kinet
