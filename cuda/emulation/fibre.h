// Fibres: stacks of their own that one host thread switches between.
//
// On x86-64 the switch is a few instructions (measured: 8 to 14 ns). Elsewhere it is ucontext,
// which makes a system call for the signal mask: correct, some 200 times slower.
//
// Invariants: the entry function never returns; a fibre that was left may be abandoned, its stack
// is then used again and no destructor on it runs.
#pragma once

#include <cstddef>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace kinet::emulation {

using FibreEntry = void (*)();

class Fibre {
 public:
  // Takes a stack of `bytes` that ends at `stack_end`.
  Fibre(char* stack_end, size_t bytes) : stack_end_(stack_end), bytes_(bytes) {}
  Fibre() : Fibre(nullptr, 0) {}  // the host thread itself

  // The next switch to this fibre starts at `entry`.
  void prepare(FibreEntry entry);
  // Leaves *this, which is running, and goes on in `next`.
  void switch_to(Fibre& next);

 private:
  char* stack_end_;
  size_t bytes_;
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_;
#endif
};

// Stacks in one piece of address space, each with a guard page below it.
class FibrePool {
 public:
  static constexpr size_t kStackBytes = 128 * 1024;
  static constexpr size_t kFibres = 1024;  // as many as a block has threads

  FibrePool();
  ~FibrePool();
  FibrePool(const FibrePool&) = delete;
  FibrePool& operator=(const FibrePool&) = delete;

  Fibre* take();
  void give_back(Fibre* fibre) { free_.push_back(fibre); }
  bool contains(const void* address) const {
    return static_cast<const char*>(address) - base_ < static_cast<ptrdiff_t>(bytes_) &&
           address >= base_;
  }

 private:
  char* base_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Fibre> fibres_;
  std::vector<Fibre*> free_;
};

}  // namespace kinet::emulation
