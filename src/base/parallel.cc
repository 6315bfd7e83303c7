#include "src/base/parallel.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace kinet::detail {
namespace {

constexpr int kLooks =
    512;  // about 20 us of looking before sleeping (a pause takes 40 to 140 cycles)

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Returns when `word` is no longer `old`: looks for a while, then sleeps on it.
void wait_while(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < kLooks; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

// One helper thread and the word that hands it a job. Invariant: the job fields are written by the
// owner only while the helper waits, and read by the helper only after it saw the new ticket.
class Helper {
 public:
  Helper() : thread_([this] { serve(); }) {}
  ~Helper() {
    run_ = nullptr;
    hand_over();
    thread_.join();
  }

  void start(void (*run)(const void*, int), const void* body, int part) {
    run_ = run, body_ = body, part_ = part;
    hand_over();
  }

  // Waits for the job and hands out what it threw, or null.
  std::exception_ptr finish() {
    wait_while(done_, ticket_.load(std::memory_order_relaxed) - 1);
    return std::move(error_);
  }

 private:
  void hand_over() {
    ticket_.fetch_add(1, std::memory_order_release);
    ticket_.notify_one();
  }

  void serve();

  void (*run_)(const void*, int) = nullptr;
  const void* body_ = nullptr;
  int part_ = 0;
  std::exception_ptr error_;
  alignas(64) std::atomic<uint32_t> ticket_{0};  // jobs handed over
  alignas(64) std::atomic<uint32_t> done_{0};    // jobs finished
  std::thread thread_;                           // last: it uses all of the above
};

thread_local bool inside_part = false;

void Helper::serve() {
  inside_part = true;
  for (uint32_t seen = 0;; ++seen) {
    wait_while(ticket_, seen);
    if (run_ == nullptr) return;
    try {
      run_(body_, part_);
    } catch (...) {
      error_ = std::current_exception();
    }
    done_.fetch_add(1, std::memory_order_release);
    done_.notify_one();
  }
}

// The helpers of the calling thread. A forked child has none of its parent's threads: it lets go of
// the parent's helpers without a join and makes its own.
class Team {
 public:
  ~Team() { leave_parent(); }
  Helper& operator[](int index) { return *helpers_[index]; }

  void grow(int count) {
    leave_parent();
    while (static_cast<int>(helpers_.size()) < count) {
      helpers_.push_back(std::make_unique<Helper>());
    }
  }

 private:
  void leave_parent() {
    if (process_ == ::getpid()) return;
    for (auto& helper : helpers_) static_cast<void>(helper.release());
    helpers_.clear();
    process_ = ::getpid();
  }

  pid_t process_ = ::getpid();
  std::vector<std::unique_ptr<Helper>> helpers_;
};

thread_local Team team;

}  // namespace

void run_parts(int parts, void (*run)(const void*, int), const void* body) {
  if (inside_part) {
    for (int part = 0; part < parts; ++part) run(body, part);
    return;
  }
  team.grow(parts - 1);
  for (int part = 1; part < parts; ++part) team[part - 1].start(run, body, part);
  std::exception_ptr error;
  inside_part = true;
  try {
    run(body, 0);
  } catch (...) {
    error = std::current_exception();
  }
  inside_part = false;
  for (int part = 1; part < parts; ++part) {
    std::exception_ptr theirs = team[part - 1].finish();
    if (!error) error = std::move(theirs);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace kinet::detail
