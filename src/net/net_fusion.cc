// Layers that a device computes together with the layer before them.
//
// y = max(x, 0) written in place behind a layer that can apply it as it stores its top
// (Convolution, InnerProduct): x is never in memory, and one pass over it is saved. This changes no
// bit and hides nothing: in place, x is gone when the net has run, with or without it. Backward of
// both layers is as ever; it reads y.
#include "src/base/text.h"
#include "src/net/fusion.h"
#include "src/net/net_builder.h"

namespace kinet {

// The ReLU that the device may compute as the end of layer `i`, or -1. A value has one reader at
// most, so nobody else can have read x; a loss weight would.
int NetBuilder::relu_behind(int i, const MemoryPlan& plan) const {
  if (top_values_[i].size() != 1 || loss_weight(i, 0) != 0) return -1;
  const int x = top_values_[i][0], relu = values_[x].reader;
  if (relu < 0) return -1;
  const auto* half = dynamic_cast<const MayBeRelu*>(net_.layers_[relu].get());
  if (half == nullptr || !half->is_relu()) return -1;
  const int y = top_values_[relu][0];
  return plan.data_class[x] == plan.data_class[y] ? relu : -1;
}

void NetBuilder::fuse_relus(const MemoryPlan& plan) {
  net_.fused_into_.assign(net_.layers_.size(), -1);
  std::vector<std::string> names;
  for (int i = 0; i < net_.layer_count(); ++i) {
    auto* half = dynamic_cast<CanEndWithRelu*>(net_.layers_[i].get());
    const int relu = half != nullptr ? relu_behind(i, plan) : -1;
    if (relu < 0) continue;
    half->end_with_relu();
    net_.fused_into_[relu] = i;
    names.push_back("'" + net_.layers_[relu]->name() + "'");
  }
  if (names.empty()) return;
  net_.notes_.push_back("the GPU computes these ReLUs as part of the layer before them: " +
                        join(names, ", "));
}

}  // namespace kinet
