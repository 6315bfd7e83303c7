#include "data/order.h"

#include <algorithm>
#include <numeric>

#include "src/base/rng.h"

namespace kinet {
namespace {

constexpr int64_t kKeptItems = 4 << 20;  // of all permutations that are kept: 16 MiB
constexpr int64_t kMostEpochs = 64;

}  // namespace

EpochOrder::EpochOrder(int64_t items, OrderKey key) : items_(items), key_(key) {
  const int64_t epochs =
      std::clamp<int64_t>(kKeptItems / std::max<int64_t>(1, items), 2, kMostEpochs);
  recent_.assign(epochs, {-1, {}});
}

int64_t EpochOrder::item_at(int64_t position) const {
  const int64_t epoch = position / items_, offset = position % items_;
  return key_.shuffle ? (*permutation(epoch))[offset] : offset;
}

std::shared_ptr<const EpochOrder::Permutation> EpochOrder::permutation(int64_t epoch) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& slot = recent_[epoch % static_cast<int64_t>(recent_.size())];
  if (slot.first == epoch) return slot.second;
  auto fresh = std::make_shared<Permutation>(items_);
  std::iota(fresh->begin(), fresh->end(), 0u);
  Rng rng(key_.seed, RngPurpose::kShuffle, key_.layer, static_cast<uint64_t>(epoch));
  for (int64_t i = items_ - 1; i > 0; --i) std::swap((*fresh)[i], (*fresh)[rng.below(i + 1)]);
  slot = {epoch, fresh};
  return fresh;
}

}  // namespace kinet
