// Barriers of blocks and warps, shuffles, votes and reductions.
//
// Every function takes the place where it is written as default arguments, so that a report of the
// engine names file and line. Masks are those of CUDA: the caller's own lane is in the mask, and
// all lanes of the mask that have not returned take part. What breaks that is reported (control.h):
// a lane outside its own mask, a source lane that takes no part (the value is then all ones),
// different operations under one mask, and threads that wait for ever.
//
// __activemask() is the caller's lane alone: CUDA promises no more about convergence.
// Barriers order memory; shuffles and votes do not, as the CUDA guide says.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace kinet::emulation {

enum class BarrierKind { kPlain, kCount, kAnd, kOr };
int block_barrier(BarrierKind kind, int predicate, const char* file, int line);

enum class WarpKind {
  kSync,
  kShuffle,
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kBallot,
  kAny,
  kAll,
  kMatchAny,
  kAddUnsigned,
  kMinUnsigned,
  kMaxUnsigned,
  kAddSigned,
  kMinSigned,
  kMaxSigned,
  kAnd,
  kOr,
  kXor
};
struct WarpRequest {
  WarpKind kind;
  unsigned mask;
  uint64_t value;  // the bits that the lane brings
  int argument;    // source lane, distance or lane mask of a shuffle
  int width;       // of the groups of a shuffle
  const char* file;
  int line;
};
uint64_t warp_operation(const WarpRequest& request);
unsigned active_mask();

template <class T>
T warp_value(WarpRequest request, T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  request.value = 0;
  std::memcpy(&request.value, &value, sizeof(T));
  const uint64_t bits = warp_operation(request);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace kinet::emulation

#define KINET_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(KINET_SITE) {
  kinet::emulation::block_barrier(kinet::emulation::BarrierKind::kPlain, 0, file, line);
}
inline int __syncthreads_count(int predicate, KINET_SITE) {
  return kinet::emulation::block_barrier(kinet::emulation::BarrierKind::kCount, predicate, file,
                                         line);
}
inline int __syncthreads_and(int predicate, KINET_SITE) {
  return kinet::emulation::block_barrier(kinet::emulation::BarrierKind::kAnd, predicate, file,
                                         line);
}
inline int __syncthreads_or(int predicate, KINET_SITE) {
  return kinet::emulation::block_barrier(kinet::emulation::BarrierKind::kOr, predicate, file, line);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, KINET_SITE) {
  kinet::emulation::warp_operation({kinet::emulation::WarpKind::kSync, mask, 0, 0, 32, file, line});
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, KINET_SITE) {
  return kinet::emulation::warp_value(
      {kinet::emulation::WarpKind::kShuffle, mask, 0, lane, width, file, line}, value);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, KINET_SITE) {
  return kinet::emulation::warp_value(
      {kinet::emulation::WarpKind::kShuffleUp, mask, 0, static_cast<int>(delta), width, file, line},
      value);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, KINET_SITE) {
  return kinet::emulation::warp_value({kinet::emulation::WarpKind::kShuffleDown, mask, 0,
                                       static_cast<int>(delta), width, file, line},
                                      value);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, KINET_SITE) {
  return kinet::emulation::warp_value(
      {kinet::emulation::WarpKind::kShuffleXor, mask, 0, lane_mask, width, file, line}, value);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, KINET_SITE) {
  return static_cast<unsigned>(kinet::emulation::warp_operation(
      {kinet::emulation::WarpKind::kBallot, mask, predicate != 0, 0, 32, file, line}));
}
inline int __any_sync(unsigned mask, int predicate, KINET_SITE) {
  return static_cast<int>(kinet::emulation::warp_operation(
      {kinet::emulation::WarpKind::kAny, mask, predicate != 0, 0, 32, file, line}));
}
inline int __all_sync(unsigned mask, int predicate, KINET_SITE) {
  return static_cast<int>(kinet::emulation::warp_operation(
      {kinet::emulation::WarpKind::kAll, mask, predicate != 0, 0, 32, file, line}));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, KINET_SITE) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return static_cast<unsigned>(kinet::emulation::warp_operation(
      {kinet::emulation::WarpKind::kMatchAny, mask, bits, 0, 32, file, line}));
}
inline unsigned __activemask() { return kinet::emulation::active_mask(); }

#define KINET_WARP_REDUCTION(name, type, kind)                                  \
  inline type name(unsigned mask, type value, KINET_SITE) {                     \
    return kinet::emulation::warp_value(                                        \
        {kinet::emulation::WarpKind::kind, mask, 0, 0, 32, file, line}, value); \
  }
KINET_WARP_REDUCTION(__reduce_add_sync, unsigned, kAddUnsigned)
KINET_WARP_REDUCTION(__reduce_min_sync, unsigned, kMinUnsigned)
KINET_WARP_REDUCTION(__reduce_max_sync, unsigned, kMaxUnsigned)
KINET_WARP_REDUCTION(__reduce_add_sync, int, kAddSigned)
KINET_WARP_REDUCTION(__reduce_min_sync, int, kMinSigned)
KINET_WARP_REDUCTION(__reduce_max_sync, int, kMaxSigned)
KINET_WARP_REDUCTION(__reduce_and_sync, unsigned, kAnd)
KINET_WARP_REDUCTION(__reduce_or_sync, unsigned, kOr)
KINET_WARP_REDUCTION(__reduce_xor_sync, unsigned, kXor)
#undef KINET_WARP_REDUCTION
#undef KINET_SITE

// One host thread runs all fibres, so memory is always in order.
inline void __threadfence_block() {}
inline void __threadfence() {}
inline void __threadfence_system() {}
