#include "src/net/batch_upload.h"

#include <algorithm>

#include "src/base/check.h"

namespace kinet {

BatchUpload::BatchUpload(std::shared_ptr<DeviceMemory> device, BatchFeed& feed,
                         std::vector<Top> tops)
    : device_(std::move(device)), feed_(feed), tops_(std::move(tops)) {
  feed_.lie_in(device_);
  for (const Top& top : tops_) {
    second_.push_back(std::make_unique<Buffer>());
    second_.back()->attach(device_);
    if (!top.on_device) continue;
    second_.back()->reserve(top.tensor->data_buffer()->capacity());
    second_.back()->device_data();
  }
  free_from_ = device_->mark();
}

BatchUpload::~BatchUpload() {  // the blocks may not be given back while they are filled
  try {
    started_.push_back(std::move(coming_));
    mark_again();
    finish();
    device_->wait(free_from_);
  } catch (const Error&) {  // the device has failed: the next call on it says so
  }
}

void BatchUpload::forward() {
  const BatchFeed::Batch batch = feed_.take();
  const bool foreseen = coming_.batch.owner != nullptr && coming_.batch.owner == batch.owner;
  for (size_t t = 0; t < tops_.size(); ++t) tops_[t].tensor->resize(batch.shapes[t]);
  if (foreseen) {
    take_over();
  } else {
    upload_now(batch);
  }
  started_.push_back(std::move(coming_));
  coming_ = {};
  if (foreseen) mark_again();
  for (size_t t = 0; t < tops_.size(); ++t) {
    const Top& top = tops_[t];
    Buffer& buffer = *top.tensor->data_buffer();
    if (!top.on_host) continue;
    device_->finish_uploads();
    std::copy_n(batch.values[t], top.tensor->count(), buffer.data());
    if (top.on_device) {
      buffer.now_equal();
    } else {
      buffer.written_on_host();
    }
  }
}

void BatchUpload::take_over() {
  for (const uint64_t ticket : coming_.tickets) device_->follow(ticket);
  for (size_t t = 0; t < tops_.size(); ++t) {
    if (!tops_[t].on_device) continue;
    Buffer& buffer = *tops_[t].tensor->data_buffer();
    buffer.reserve(second_[t]->capacity());
    buffer.exchange_on_device(*second_[t]);
  }
}

// All that reads the second blocks, or makes new ones, has been asked for.
void BatchUpload::mark_again() {
  started_.push_back({{}, {free_from_}});
  free_from_ = device_->mark();
}

void BatchUpload::upload_now(const BatchFeed::Batch& batch) {
  for (size_t t = 0; t < tops_.size(); ++t) {
    if (!tops_[t].on_device) continue;
    Tensor& top = *tops_[t].tensor;
    device_->upload(top.device_data(), batch.values[t], static_cast<size_t>(top.count()));
    top.data_buffer()->written_on_device();
  }
  started_.push_back({batch, {device_->mark()}});
}

void BatchUpload::begin_next() {
  if (coming_.batch.owner != nullptr) return;
  finish();
  BatchFeed::Batch batch = feed_.peek();
  if (batch.owner == nullptr) return;
  coming_.batch = std::move(batch);
  const BatchFeed::Batch& next = coming_.batch;
  for (size_t t = 0; t < tops_.size(); ++t) {
    if (!tops_[t].on_device) continue;
    const auto count = static_cast<size_t>(next.shapes[t].count());
    Buffer& second = *second_[t];
    const size_t room = std::max(count, tops_[t].tensor->data_buffer()->capacity());
    if (room > second.capacity()) {  // a new block is filled with zeros in the device's order
      second.reserve(room);
      second.device_data();
      mark_again();
    }
    coming_.tickets.push_back(
        device_->upload_aside(second.device_data(), next.values[t], count, free_from_));
  }
}

// The memory of batches that have gone up is made free.
void BatchUpload::finish() {
  for (const Upload& upload : started_) {
    for (const uint64_t ticket : upload.tickets) device_->wait(ticket);
  }
  started_.clear();
}

size_t BatchUpload::device_floats() const {
  size_t floats = 0;
  for (const auto& block : second_) floats += block->capacity();
  return floats;
}

}  // namespace kinet
