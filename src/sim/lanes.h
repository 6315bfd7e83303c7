// Threads that compute gradients ahead of their time: tasks are known when a virtual worker gets
// its weights, and needed when its gradient arrives. The task that is needed first is begun first.
//
// With one lane there is no thread: a task runs when it is waited for. Otherwise the thread that
// waits is lane 0, and takes tasks itself.
// Thread safety: submit(), wait() and drop() by one thread, the owner.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace kinet {

class Lanes {
 public:
  explicit Lanes(int lanes);
  ~Lanes();  // tasks not begun are forgotten
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  class Task;
  using Handle = std::shared_ptr<Task>;
  // `due`: virtual seconds at which it will be needed, as far as is known.
  Handle submit(double due, std::function<void(int lane)> work);
  // Until it is done or dropped; rethrows what it has thrown.
  void wait(const Handle& task);
  void drop(const Handle& task);  // it is not needed any more; it may still be running

 private:
  struct Sooner {
    bool operator()(const Handle& a, const Handle& b) const;
  };
  void serve(int lane);
  void run(const Handle& task, int lane, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Handle, Sooner> queue_;
  uint64_t next_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kinet
