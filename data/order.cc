#include "data/order.h"

#include <numeric>

#include "src/base/rng.h"

namespace kinet {

int64_t EpochOrder::item_at(int64_t position) const {
  const int64_t epoch = position / items_, offset = position % items_;
  return key_.shuffle ? (*permutation(epoch))[offset] : offset;
}

std::shared_ptr<const EpochOrder::Permutation> EpochOrder::permutation(int64_t epoch) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& slot = recent_[epoch % 2];
  if (slot.first == epoch) return slot.second;
  auto fresh = std::make_shared<Permutation>(items_);
  std::iota(fresh->begin(), fresh->end(), 0u);
  Rng rng(key_.seed, RngPurpose::kShuffle, key_.layer, static_cast<uint64_t>(epoch));
  for (int64_t i = items_ - 1; i > 0; --i) std::swap((*fresh)[i], (*fresh)[rng.below(i + 1)]);
  slot = {epoch, fresh};
  return fresh;
}

}  // namespace kinet
