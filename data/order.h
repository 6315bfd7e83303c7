// Which item stands at which position of a run.
//
// Equation: position = epoch * items + offset; item = permutation(epoch)[offset], where the
//           permutation is Fisher-Yates (Durstenfeld 1964) driven by Rng(seed, kShuffle, layer,
//           epoch), or the identity. A pure function of position: nothing to save or restore.
// Thread safety: all functions may be called from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kinet {

struct OrderKey {
  bool shuffle = false;
  uint64_t seed = 0;   // of the run
  uint64_t layer = 0;  // hash_name of the layer's name
};

class EpochOrder {
 public:
  EpochOrder(int64_t items, OrderKey key);

  int64_t items() const { return items_; }
  const OrderKey& key() const { return key_; }
  int64_t item_at(int64_t position) const;

 private:
  using Permutation = std::vector<uint32_t>;
  std::shared_ptr<const Permutation> permutation(int64_t epoch) const;

  const int64_t items_;
  const OrderKey key_;
  mutable std::mutex mutex_;
  // At least the two epochs that batches in flight may straddle. Small sets keep more: whoever
  // reads for workers that are epochs apart comes back to each.
  mutable std::vector<std::pair<int64_t, std::shared_ptr<const Permutation>>> recent_;
};

}  // namespace kinet
