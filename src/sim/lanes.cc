#include "src/sim/lanes.h"

namespace kinet {

class Lanes::Task {
 public:
  double due = 0;
  uint64_t number = 0;
  std::function<void(int)> work;
  enum class State { kQueued, kRunning, kDone, kDropped } state = State::kQueued;
  std::exception_ptr error;
};

bool Lanes::Sooner::operator()(const Handle& a, const Handle& b) const {
  return std::pair(a->due, a->number) < std::pair(b->due, b->number);
}

Lanes::Lanes(int lanes) {
  for (int lane = 1; lane < lanes; ++lane) threads_.emplace_back([this, lane] { serve(lane); });
}

Lanes::~Lanes() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    for (const Handle& task : queue_) task->work = nullptr;
    queue_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Lanes::Handle Lanes::submit(double due, std::function<void(int)> work) {
  auto task = std::make_shared<Task>();
  task->due = due;
  task->work = std::move(work);
  {
    const std::lock_guard lock(mutex_);
    task->number = next_++;
    queue_.insert(task);
  }
  if (!threads_.empty()) changed_.notify_all();
  return task;
}

void Lanes::run(const Handle& task, int lane, std::unique_lock<std::mutex>& lock) {
  task->state = Task::State::kRunning;
  lock.unlock();
  std::exception_ptr error;
  try {
    task->work(lane);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  task->error = error;
  task->work = nullptr;
  task->state = Task::State::kDone;
  changed_.notify_all();
}

void Lanes::serve(int lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return over_ || !queue_.empty(); });
    if (over_) return;
    const Handle task = *queue_.begin();
    queue_.erase(queue_.begin());
    run(task, lane, lock);
  }
}

// Lane 0 computes the task that it waits for, or another one while that is being computed.
void Lanes::wait(const Handle& task) {
  std::unique_lock lock(mutex_);
  while (task->state != Task::State::kDone && task->state != Task::State::kDropped) {
    if (task->state == Task::State::kQueued) {
      queue_.erase(task);
      run(task, 0, lock);
    } else {
      changed_.wait(lock, [&] { return task->state == Task::State::kDone; });
    }
  }
  if (task->error) std::rethrow_exception(task->error);
}

void Lanes::drop(const Handle& task) {
  const std::lock_guard lock(mutex_);
  if (task->state != Task::State::kQueued) return;
  queue_.erase(task);
  task->state = Task::State::kDropped;
  task->work = nullptr;  // it may hold what holds the task
}

}  // namespace kinet
