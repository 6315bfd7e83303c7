#include "data/prefetch.h"

#include <algorithm>

namespace kinet {

void BatchPool::lie_in(std::shared_ptr<DeviceMemory> device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  device_ = std::move(device);
  free_.clear();
}

std::shared_ptr<Batch> BatchPool::take() {
  std::unique_ptr<Batch> batch;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) {
      batch = std::make_unique<Batch>();
      if (device_ != nullptr) batch->data.attach(device_), batch->label_memory.attach(device_);
    } else {
      batch = std::move(free_.back());
      free_.pop_back();
    }
  }
  return {batch.release(), [pool = shared_from_this()](Batch* used) {
            const std::lock_guard<std::mutex> lock(pool->mutex_);
            pool->free_.emplace_back(used);
          }};
}

Prefetcher::Prefetcher(std::unique_ptr<const BatchMaker> maker, PrefetchOptions options)
    : maker_(std::move(maker)), options_(options), slots_(std::max(options.depth, 1)) {}

Prefetcher::~Prefetcher() { stop(); }

void Prefetcher::start() {
  taken_ = consumed_ = 0;
  next_begin_ = position_;
  epoch_ = epoch_at(position_);
  cancelled_ = false;
  const int threads = std::clamp(options_.threads, 1, options_.depth);
  for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

void Prefetcher::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
  }
  room_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  for (Slot& slot : slots_) slot.ready = false, slot.batch.reset();
}

bool Prefetcher::has_work() const {
  if (taken_ - consumed_ >= options_.depth) return false;
  return !stop_at_epoch_end_ || epoch_at(next_begin_) <= epoch_;
}

void Prefetcher::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    room_.wait(lock, [this] { return cancelled_ || has_work(); });
    if (cancelled_) return;
    Slot& slot = slots_[taken_++ % options_.depth];
    const Reading reading = reading_at(next_begin_);
    next_begin_ = slot.next = reading.next;
    slot.batch = pool_->take();
    Batch& batch = *slot.batch;
    lock.unlock();
    maker_->make(reading.begin, reading.end, batch, cancelled_);
    lock.lock();
    slot.ready = true;
    ready_.notify_one();
  }
}

Prefetcher::Slot& Prefetcher::wait_for_batch() {
  if (options_.depth == 0) {
    cancelled_ = false;
    const Reading reading = reading_at(position_);
    slots_[0].next = reading.next;
    slots_[0].batch = pool_->take();
    maker_->make(reading.begin, reading.end, *slots_[0].batch, cancelled_);
    if (slots_[0].batch->error) std::rethrow_exception(slots_[0].batch->error);
    return slots_[0];
  }
  if (workers_.empty()) start();
  std::unique_lock<std::mutex> lock(mutex_);
  const int64_t epoch = epoch_at(position_);
  if (epoch != epoch_) {
    epoch_ = epoch;
    room_.notify_all();
  }
  Slot& slot = slots_[consumed_ % options_.depth];
  ready_.wait(lock, [&slot] { return slot.ready; });
  if (slot.batch->error) std::rethrow_exception(slot.batch->error);
  return slot;
}

void Prefetcher::consume(const std::function<void(const Batch&)>& use) {
  Slot& slot = wait_for_batch();
  use(*slot.batch);
  move_past(slot);
}

std::shared_ptr<const Batch> Prefetcher::take() {
  Slot& slot = wait_for_batch();
  std::shared_ptr<const Batch> batch = slot.batch;
  move_past(slot);
  return batch;
}

std::shared_ptr<const Batch> Prefetcher::peek() {
  if (workers_.empty()) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Slot& slot = slots_[consumed_ % options_.depth];
  return slot.ready && !slot.batch->error ? slot.batch : nullptr;
}

void Prefetcher::lie_in(std::shared_ptr<DeviceMemory> device) {
  stop();
  pool_->lie_in(std::move(device));
}

void Prefetcher::move_past(Slot& slot) {
  position_ = slot.next;
  skipped_ += slot.batch->skipped;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    slot.ready = false;
    slot.batch.reset();
    ++consumed_;
  }
  room_.notify_one();
}

void Prefetcher::seek(int64_t position) {
  if (position == position_ && workers_.empty()) return;
  stop();
  position_ = position;
}

// Worker w reads the w-th of the next workers_reading_ batches, whatever their sizes.
Prefetcher::Reading Prefetcher::reading_at(int64_t position) const {
  Reading reading;
  for (int64_t w = 0; w < workers_reading_; ++w) {
    const int64_t end = maker_->end_of(position, stop_at_epoch_end_);
    if (w == worker_) reading.begin = position, reading.end = end;
    position = end;
  }
  reading.next = position;
  return reading;
}

int64_t Prefetcher::epoch_at(int64_t position) const {
  return reading_at(position).begin / maker_->order().items();
}

void Prefetcher::partition(int64_t worker, int64_t workers) {
  if (worker == worker_ && workers == workers_reading_) return;
  stop();
  worker_ = worker;
  workers_reading_ = workers;
}

void Prefetcher::stop_at_epoch_end(bool stop_there) {
  if (stop_there == stop_at_epoch_end_) return;
  stop();
  stop_at_epoch_end_ = stop_there;
}

}  // namespace kinet
