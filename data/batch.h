// One batch, made on any thread: a pure function of the data set, the order and the position.
//
// Shapes: data N C H W, labels N.
// Sizes:  with batch_size 1 every image may have a size of its own; otherwise all must come out of
//         the transformation like the first item of the data set, and the first that does not is
//         named.
// Random: item i of epoch e is transformed with Rng(seed, kAugment, layer, e, i).
// Thread safety: BatchMaker is const; each Batch belongs to one thread at a time.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/order.h"
#include "data/transform.h"
#include "src/tensor/tensor.h"

namespace kinet {

struct Batch {
  int64_t begin = 0, end = 0;  // positions of its first item and of the next batch
  ImageSize size;
  Buffer data, label_memory;  // page-locked where a device is attached to them
  int64_t skipped = 0;        // bad items that others stand in for
  Sample sample;              // reused between items
  std::exception_ptr error;

  int64_t items() const { return end - begin; }
  std::span<const float> labels() const {
    return {label_memory.data(), static_cast<size_t>(items())};
  }
};

class BatchMaker {
 public:
  // skip_bad: an item that cannot be read is replaced by the next readable one of the data set.
  BatchMaker(std::shared_ptr<const Dataset> dataset, Transformer transformer, OrderKey order,
             int64_t batch_size, bool skip_bad);

  const Dataset& dataset() const { return *dataset_; }
  const EpochOrder& order() const { return order_; }
  int64_t batch_size() const { return batch_size_; }
  ImageSize first_size() const { return first_size_; }

  // Where the batch that begins at `begin` ends.
  int64_t end_of(int64_t begin, bool stop_at_epoch_end) const;
  // Fills `batch` for [begin, end); what goes wrong is left in batch.error. Returns early, with an
  // unusable batch, once `cancelled` is true.
  void make(int64_t begin, int64_t end, Batch& batch, const std::atomic<bool>& cancelled) const;

 private:
  void fill(Batch& batch, const std::atomic<bool>& cancelled) const;
  // Reads item `index` or its stand-in; returns the index read.
  int64_t read(int64_t index, Batch& batch) const;
  // The transformed size of the sample just read from `index`, checked.
  ImageSize checked_size(const Sample& sample, int64_t index) const;

  const std::shared_ptr<const Dataset> dataset_;
  const Transformer transformer_;
  const EpochOrder order_;
  const int64_t batch_size_;
  const bool skip_bad_;
  ImageSize first_size_;      // of the first item, transformed
  ImageSize first_raw_size_;  // and as it is stored
  int64_t first_index_ = 0;
};

}  // namespace kinet
