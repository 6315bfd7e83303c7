// Makes batches ahead of their use, on threads of its own, and hands them out in order.
//
// Thread safety: the public functions are for one thread, the consumer; the workers are inside.
// Invariants (under mutex_):
//   ticket t is batch number t since the last start; tickets are taken in order, and only while
//   taken_ - consumed_ < depth: so at most `depth` batches are being made, waiting or in use by
//   consume(), and slot t % depth belongs to ticket t alone. What take() has given away counts no
//   more; its memory comes back when nobody holds it.
// While stop_at_epoch_end is asked for, no batch is made beyond the epoch the consumer is in: after
// a test pass the next thing is mostly a seek, and what had been made would be thrown away. Which
// items a batch holds follows from its position, so neither the depth nor the number of threads
// changes what comes out.
//
// A run, depth 2, one worker: consume() starts the worker and waits for ticket 0; the worker makes
// 0 and 1, then waits for room; consume() returns, slot 0 is free, the worker makes 2; seek() joins
// the worker and forgets 1 and 2; the next consume() starts again with ticket 0.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batch.h"

namespace kinet {

struct PrefetchOptions {
  int depth = 4;    // batches ahead; 0: made in consume() itself, without a thread
  int threads = 1;  // that make them; more than `depth` are of no use
};

// Batches that nobody uses, whose memory is used again. Thread safe.
class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  // Of new batches: on `device`, memory is page-locked. null: it is not.
  void lie_in(std::shared_ptr<DeviceMemory> device);
  // Comes back to the pool when the last share is gone.
  std::shared_ptr<Batch> take();

 private:
  std::mutex mutex_;
  std::shared_ptr<DeviceMemory> device_;
  std::vector<std::unique_ptr<Batch>> free_;
};

class Prefetcher {
 public:
  Prefetcher(std::unique_ptr<const BatchMaker> maker, PrefetchOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  const PrefetchOptions& options() const { return options_; }

  const BatchMaker& maker() const { return *maker_; }
  // Calls use() with the batch at position(), then moves to its end. An error met while the batch
  // was made is thrown here, again at every call until seek(). No thread runs before the first
  // call.
  void consume(const std::function<void(const Batch&)>& use);
  // The same, but the batch is the caller's: its values stay as long as it is held.
  std::shared_ptr<const Batch> take();
  // What take() will give unless the source is moved before, if it is there already and without
  // error; else null. Waits for nothing.
  std::shared_ptr<const Batch> peek();
  // Batches made from now on lie in memory that the device reaches at full speed.
  void lie_in(std::shared_ptr<DeviceMemory> device);
  int64_t position() const { return position_; }
  void seek(int64_t position);
  void stop_at_epoch_end(bool stop);
  // Worker `worker` of `workers` (BatchSource::partition).
  void partition(int64_t worker, int64_t workers);
  int64_t skipped() const { return skipped_; }  // in the batches consumed so far

 private:
  struct Slot {
    std::shared_ptr<Batch> batch;
    int64_t next = 0;  // position after it
    bool ready = false;
  };
  // What is read at a position: [begin, end), after which the position is `next`.
  struct Reading {
    int64_t begin = 0, end = 0, next = 0;
  };

  void start();
  void stop();  // joins the workers and forgets what they made
  void work();
  bool has_work() const;   // REQUIRES: mutex_ held
  Slot& wait_for_batch();  // one without error
  void move_past(Slot& slot);
  Reading reading_at(int64_t position) const;
  int64_t epoch_at(int64_t position) const;  // of the item this worker reads first

  const std::unique_ptr<const BatchMaker> maker_;
  const PrefetchOptions options_;
  const std::shared_ptr<BatchPool> pool_ = std::make_shared<BatchPool>();
  int64_t position_ = 0, skipped_ = 0;
  // These change only while no worker runs.
  bool stop_at_epoch_end_ = false;
  int64_t worker_ = 0, workers_reading_ = 1;

  std::mutex mutex_;
  std::condition_variable room_, ready_;
  std::vector<Slot> slots_;
  std::vector<std::thread> workers_;
  std::atomic<bool> cancelled_{false};  // written under mutex_; read without it between two items
  int64_t taken_ = 0, consumed_ = 0;    // tickets
  int64_t next_begin_ = 0;              // position of ticket taken_
  int64_t epoch_ = 0;                   // that the consumer is in
};

}  // namespace kinet
