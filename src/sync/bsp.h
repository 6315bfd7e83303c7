// Bulk-synchronous training over all-reduce: every worker computes the gradient of its own batch,
// the gradients are summed, every worker applies the same update. There is no server.
//
// Equation:  g = (1/N) sum_r g_r     summed in rank order, so that it depends on N alone
//            w <- w - update(g)      the same bits on every worker
// N workers with batch B so make the update of one worker with batch N B (nets without batch norm;
// batch norm takes its statistics per worker, and its stored ones are averaged over the workers).
//
// What the workers have to agree on besides travels behind the gradients in the same all-reduce:
//   [ gradients | loss, multiplier, stop, stop now, snapshot, not finite by rank | states by rank ]
// so all stop at the same iteration, and none applies what another one cannot. States are what each
// worker alone knows and a snapshot needs; they are there when workers have any.
//
// Failures: a lost worker ends the run of all (Error naming it); nothing of that iteration is
// applied. Thread safety: one thread, the solver's.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "comm/communicator.h"
#include "src/base/shared_memory.h"
#include "src/sync/number_exchange.h"

namespace kinet {

// What one worker says about its gradient, and wants.
struct WorkerStep {
  double loss = 0;
  double multiplier = 1;  // that its gradient was multiplied by (LrSearch)
  bool finite = true;
  bool stop = false, stop_now = false, snapshot = false;
  // At most kMostStateWords words; as many on every worker, in every step.
  std::vector<uint64_t> state;
};

inline constexpr size_t kMostStateWords = 8;

// What came of all.
struct GlobalStep {
  double loss = 0, multiplier = 1;                        // means over the workers
  std::vector<Rank> not_finite;                           // whose gradient or loss is not finite
  bool stop = false, stop_now = false, snapshot = false;  // one of them wants it
  std::vector<std::vector<uint64_t>> states;              // by rank
};

struct BspOptions {
  double timeout = 7200;  // seconds that a worker may be waited for while it gives signs of life
  // Gradients are summed while backward runs, in buckets of so many bytes; 0: all at once after it.
  size_t bucket_bytes = 0;
};

class Bsp {
 public:
  // Collective. `gradients` and `buffers`: floats of the net's arenas. Throws Error when the ranks
  // do not come together.
  Bsp(Communicator& comm, size_t gradients, size_t buffers, const BspOptions& options);
  ~Bsp();

  Rank rank() const { return comm_.rank(); }
  int workers() const { return comm_.size(); }

  // Where the gradients have to lie (Net::move_gradients), and what keeps that memory alive.
  std::span<float> gradients() const;
  std::shared_ptr<void> owner() const { return memory_; }

  // During backward: floats [from, to) of the gradient are final, so what is before the next
  // reduce() can begin. All workers sum the same buckets in the same order, from the end of the
  // arena to its start, whatever is told in which order. Does nothing without bucket_bytes.
  void gradients_final(size_t from, size_t to);
  bool overlaps() const { return options_.bucket_bytes > 0; }
  // Is told on the solver's thread, within gradients_final() and reduce(), that floats [from, to)
  // of gradients() hold the sum: of every float once, while others are still being summed.
  using Summed = std::function<void(size_t from, size_t to)>;
  void on_summed(Summed summed) { summed_ = std::move(summed); }

  // Sums the gradients of all workers in place and agrees on the rest. `interrupted` (may be null)
  // ends the wait: false is returned, and the run cannot go on.
  bool reduce(const WorkerStep& step, const std::atomic<bool>* interrupted, GlobalStep& global);
  // Lets `seconds` pass while the others are served. Not counted as waiting.
  void pause(double seconds, const std::atomic<bool>* interrupted);
  // The mean over the workers, in place: the stored statistics of batch norm.
  void average(std::span<float> buffers);

  // A test in shares: every worker says its sums, or that it wants to stop. Collective, like
  // reduce(); false: `interrupted` ended the wait. Whether others want to stop can be asked before,
  // between two batches.
  struct TestSay {
    bool stop = false, stop_now = false;  // then the sums may be missing
    std::vector<double> sums;
  };
  bool share_test(const TestSay& mine, const std::atomic<bool>* interrupted,
                  std::vector<TestSay>& all);
  bool others_stop_test();

  // All workers have come to the end; nobody needs anything of anybody afterwards.
  void finish();
  // The lowest rank that is not lost: it writes the snapshot at the end of a broken run, and may
  // have done so and left already. -1: this rank was declared lost, the others know better.
  Rank writer();
  std::string declared_lost() const { return comm_.declared_lost(); }
  // "rank 2 (host a, process 77) is lost: ...", or "".
  std::string first_loss() const { return comm_.first_loss(); }
  // For heartbeats: what this worker does, and whether that is known to take long.
  void note(int64_t iteration, const std::string& phase, bool slow);
  // Seconds spent waiting for others since the last call.
  double take_waiting();

 private:
  void wait(Ticket ticket, const std::string& what, const std::atomic<bool>* interrupted);
  void start_buckets();
  void begin_buckets();
  struct Bucket {
    Ticket ticket;
    size_t from, to;  // floats of the gradients
  };
  bool sum_rest(size_t tail_size, const std::atomic<bool>* interrupted);
  void tell_summed();
  float* tail() const;
  float* states() const;
  void put_state(const std::vector<uint64_t>& words);
  std::vector<uint64_t> state_of(Rank rank, size_t words) const;

  Communicator& comm_;
  const size_t arena_, gradients_, buffers_;  // floats; gradients_: the arena, padded
  const BspOptions options_;
  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<Collectives> collectives_;
  NumberExchange exchange_;
  int64_t step_ = 0;
  size_t final_from_ = 0,
         started_from_ = 0;          // floats: all from here on are final; are being summed
  std::map<size_t, size_t> finals_;  // final ranges below, by their end: begin
  std::vector<Bucket> buckets_;
  size_t told_ = 0;  // of these, how many are summed and told
  Summed summed_;
  std::vector<bool> finished_;  // by rank: it said so
  double waiting_ = 0;
};

}  // namespace kinet
