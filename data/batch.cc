#include "data/batch.h"

#include "src/base/check.h"

namespace kinet {
namespace {

[[noreturn]] void fail_sizes(const std::string& item, const ImageSize& size,
                             const std::string& first, const ImageSize& first_size) {
  fail(
      "{} is {}x{}x{}, but {} is {}x{}x{}: the images of a batch must have one size\nhint: set "
      "crop_size, resize the images (new_height and new_width), or use batch_size 1",
      item, size.channels, size.height, size.width, first, first_size.channels, first_size.height,
      first_size.width);
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset, Transformer transformer,
                       OrderKey order, int64_t batch_size, bool skip_bad)
    : dataset_(std::move(dataset)),
      transformer_(std::move(transformer)),
      order_(dataset_->items(), order),
      batch_size_(batch_size),
      skip_bad_(skip_bad) {
  Batch probe;
  first_index_ = read(0, probe);
  const Sample& s = probe.sample;
  first_raw_size_ = {s.channels, s.height, s.width};
  first_size_ = transformer_.output_size(s, dataset_->locate(first_index_));
}

int64_t BatchMaker::end_of(int64_t begin, bool stop_at_epoch_end) const {
  const int64_t end = begin + batch_size_;
  if (!stop_at_epoch_end) return end;
  const int64_t items = order_.items();
  return std::min(end, (begin / items + 1) * items);
}

void BatchMaker::make(int64_t begin, int64_t end, Batch& batch,
                      const std::atomic<bool>& cancelled) const {
  batch.begin = begin;
  batch.end = end;
  batch.skipped = 0;
  batch.error = nullptr;
  try {
    fill(batch, cancelled);
  } catch (...) {
    batch.error = std::current_exception();
  }
}

void BatchMaker::fill(Batch& batch, const std::atomic<bool>& cancelled) const {
  const int64_t n = batch.items(), items = order_.items();
  batch.label_memory.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    if (cancelled.load(std::memory_order_relaxed)) return;
    const int64_t position = batch.begin + i;
    const int64_t index = order_.item_at(position);
    const int64_t source = read(index, batch);
    const Sample& s = batch.sample;
    const ImageSize size = checked_size(s, source);
    if (i == 0) {
      batch.size = size;
      batch.data.reserve(n * size.count());
    }
    const auto epoch = static_cast<uint64_t>(position / items);
    transformer_.apply(s,
                       Rng(order_.key().seed, RngPurpose::kAugment, order_.key().layer, epoch,
                           static_cast<uint64_t>(index)),
                       batch.data.data() + i * size.count());
    batch.label_memory.data()[i] = static_cast<float>(s.label);
  }
}

ImageSize BatchMaker::checked_size(const Sample& s, int64_t index) const {
  // The usual case; naming an item takes longer than transforming a small one.
  if (first_raw_size_ == ImageSize{s.channels, s.height, s.width}) return first_size_;
  const std::string item = dataset_->locate(index);
  const ImageSize size = transformer_.output_size(s, item);
  if (batch_size_ > 1 && size != first_size_) {
    fail_sizes(item, size, dataset_->locate(first_index_), first_size_);
  }
  return size;
}

int64_t BatchMaker::read(int64_t index, Batch& batch) const {
  const int64_t items = dataset_->items();
  for (int64_t tried = 0; tried < items; ++tried) {
    const int64_t candidate = (index + tried) % items;
    try {
      dataset_->read(candidate, batch.sample);
      batch.skipped += tried > 0;
      return candidate;
    } catch (const Error& error) {
      if (!skip_bad_) throw;
      if (tried + 1 == items) {
        fail("{}\nnone of the {} items can be read", error.what(), items);
      }
    }
  }
  fail("the data set holds no items");
}

}  // namespace kinet
