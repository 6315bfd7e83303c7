// The functions that g++ calls before every memory access with -fsanitize=thread, and the one that
// it calls for a misaligned one with -fsanitize=alignment.
//
// Targets in check mode are compiled with these flags and not linked with them (KinetCuda.cmake),
// so that the calls end here instead of in the sanitizers' libraries. Code of the host in these
// targets calls them too, and passes. The hooks never throw: compilers take them for functions that
// do not, and a thread that must not go on is left for good instead (Scheduler::end_thread).
#include <cstddef>
#include <cstdint>

#include "cuda/emulation/checker.h"

using kinet::emulation::AccessKind;

namespace {

inline __attribute__((always_inline)) void look(const void* address, size_t bytes, AccessKind kind,
                                                const void* pc) {
  if (kinet::emulation::Checker* checker = kinet::emulation::active_checker) {
    checker->access(address, bytes, kind, pc);
  }
}

// As the compiler lays them out for __ubsan_handle_type_mismatch_v1.
struct SourceLocation {
  const char* file;
  uint32_t line, column;
};
struct TypeMismatch {
  SourceLocation location;
  const void* type;
  uint8_t log_alignment;
  uint8_t kind;
};

}  // namespace

#define PC __builtin_return_address(0)
#define KINET_ACCESS_HOOKS(bytes)                                                         \
  void __tsan_read##bytes(void* a) { look(a, bytes, AccessKind::kRead, PC); }             \
  void __tsan_write##bytes(void* a) { look(a, bytes, AccessKind::kWrite, PC); }           \
  void __tsan_unaligned_read##bytes(void* a) { look(a, bytes, AccessKind::kRead, PC); }   \
  void __tsan_unaligned_write##bytes(void* a) { look(a, bytes, AccessKind::kWrite, PC); } \
  void __tsan_volatile_read##bytes(void* a) { look(a, bytes, AccessKind::kRead, PC); }    \
  void __tsan_volatile_write##bytes(void* a) { look(a, bytes, AccessKind::kWrite, PC); }

// Atomics of the host's code (std::shared_ptr and the like).
#define KINET_ATOMIC_HOOKS(bits, T)                                                       \
  T __tsan_atomic##bits##_load(const volatile T* a, int) {                                \
    return __atomic_load_n(a, __ATOMIC_SEQ_CST);                                          \
  }                                                                                       \
  void __tsan_atomic##bits##_store(volatile T* a, T v, int) {                             \
    __atomic_store_n(a, v, __ATOMIC_SEQ_CST);                                             \
  }                                                                                       \
  T __tsan_atomic##bits##_exchange(volatile T* a, T v, int) {                             \
    return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST);                                   \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_add(volatile T* a, T v, int) {                            \
    return __atomic_fetch_add(a, v, __ATOMIC_SEQ_CST);                                    \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_sub(volatile T* a, T v, int) {                            \
    return __atomic_fetch_sub(a, v, __ATOMIC_SEQ_CST);                                    \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_and(volatile T* a, T v, int) {                            \
    return __atomic_fetch_and(a, v, __ATOMIC_SEQ_CST);                                    \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_or(volatile T* a, T v, int) {                             \
    return __atomic_fetch_or(a, v, __ATOMIC_SEQ_CST);                                     \
  }                                                                                       \
  T __tsan_atomic##bits##_fetch_xor(volatile T* a, T v, int) {                            \
    return __atomic_fetch_xor(a, v, __ATOMIC_SEQ_CST);                                    \
  }                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* a, T* c, T v, int, int) { \
    return __atomic_compare_exchange_n(a, c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
  }                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* a, T* c, T v, int, int) {   \
    return __atomic_compare_exchange_n(a, c, v, 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
  }

extern "C" {
KINET_ACCESS_HOOKS(1)
KINET_ACCESS_HOOKS(2)
KINET_ACCESS_HOOKS(4)
KINET_ACCESS_HOOKS(8)
KINET_ACCESS_HOOKS(16)
void __tsan_read_range(void* a, size_t bytes) { look(a, bytes, AccessKind::kRead, PC); }
void __tsan_write_range(void* a, size_t bytes) { look(a, bytes, AccessKind::kWrite, PC); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
KINET_ATOMIC_HOOKS(8, uint8_t)
KINET_ATOMIC_HOOKS(16, uint16_t)
KINET_ATOMIC_HOOKS(32, uint32_t)
KINET_ATOMIC_HOOKS(64, uint64_t)

void __ubsan_handle_type_mismatch_v1(TypeMismatch* what, uintptr_t address) {
  kinet::emulation::Checker* checker = kinet::emulation::active_checker;
  if (checker == nullptr) return;  // x86-64 hosts do not mind
  checker->misaligned(reinterpret_cast<const void*>(address), what->location.file,
                      static_cast<int>(what->location.line), size_t{1} << what->log_alignment);
}
}
