#include "cuda/emulation/fibre.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "src/base/check.h"

#if defined(__x86_64__)
// kinet_emulation_switch(void** save, void* load): keeps the callee-saved registers on the stack
// that is left. It ends in a jump instead of a return: the processor predicts returns from the
// calls it has seen, and would be wrong every time.
asm(R"(
.text
.p2align 4
.type kinet_emulation_switch, @function
kinet_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
.size kinet_emulation_switch, . - kinet_emulation_switch
)");
extern "C" void kinet_emulation_switch(void** save, void* load);
#endif

namespace kinet::emulation {

#if defined(__x86_64__)

void Fibre::prepare(FibreEntry entry) {
  // From below: six registers, where to jump, and a null return address that ends backtraces. After
  // the jump the stack pointer is 8 mod 16, as behind a call.
  auto** frame = reinterpret_cast<void**>(stack_end_) - 8;
  for (int i = 0; i < 8; ++i) frame[i] = nullptr;
  frame[6] = reinterpret_cast<void*>(entry);
  stack_pointer_ = frame;
}

void Fibre::switch_to(Fibre& next) { kinet_emulation_switch(&stack_pointer_, next.stack_pointer_); }

#else

void Fibre::prepare(FibreEntry entry) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_end_ - bytes_;
  context_.uc_stack.ss_size = bytes_;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
}

void Fibre::switch_to(Fibre& next) { swapcontext(&context_, &next.context_); }

#endif

FibrePool::FibrePool() {
  const auto guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t step = guard + kStackBytes;
  bytes_ = step * kFibres;
  void* base = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  KINET_CHECK(base != MAP_FAILED, "no address space for the fibres of the CUDA emulation");
  base_ = static_cast<char*>(base);
  fibres_.reserve(kFibres);
  for (size_t i = 0; i < kFibres; ++i) {
    char* stack = base_ + i * step + guard;
    KINET_CHECK(mprotect(stack, kStackBytes, PROT_READ | PROT_WRITE) == 0,
                "no memory for the fibres of the CUDA emulation");
    // Stacks that all end at the same place of a page would share a few sets of the cache.
    const size_t colour = i % 16 * 192;
    fibres_.emplace_back(stack + kStackBytes - colour, kStackBytes - colour);
  }
  for (size_t i = kFibres; i-- > 0;) free_.push_back(&fibres_[i]);
}

FibrePool::~FibrePool() { munmap(base_, bytes_); }

Fibre* FibrePool::take() {
  Fibre* fibre = free_.back();  // a block has no more threads than there are fibres
  free_.pop_back();
  return fibre;
}

}  // namespace kinet::emulation
