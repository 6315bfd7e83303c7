// What the lanes of a warp get from shuffles, votes and reductions.
#include <bit>
#include <limits>

#include "cuda/emulation/scheduler.h"

namespace kinet::emulation {
namespace {

using Requests = std::array<const WarpRequest*, kWarpLanes>;

// The lane that a shuffle reads, by the rules of the CUDA guide: a lane outside the caller's group
// of `width` lanes gives the caller its own value (for xor only a later group does).
int source_lane(const WarpRequest& request, int lane) {
  const int first = lane / request.width * request.width;
  const int end = first + request.width;
  switch (request.kind) {
    case WarpKind::kShuffle:
      return first + (request.argument & (request.width - 1));
    case WarpKind::kShuffleUp:
      return lane - request.argument >= first ? lane - request.argument : lane;
    case WarpKind::kShuffleDown:
      return lane + request.argument < end ? lane + request.argument : lane;
    default:  // kShuffleXor
      return (lane ^ request.argument) < end ? lane ^ request.argument : lane;
  }
}

template <class T, class Join>
uint64_t reduce(const Requests& requests, unsigned arrived, T result, Join join) {
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if (arrived >> lane & 1u) result = join(result, static_cast<T>(requests[lane]->value));
  }
  return static_cast<uint32_t>(result);
}

template <class T>
uint64_t smallest(const Requests& requests, unsigned arrived) {
  return reduce<T>(requests, arrived, std::numeric_limits<T>::max(),
                   [](T a, T b) { return b < a ? b : a; });
}

template <class T>
uint64_t largest(const Requests& requests, unsigned arrived) {
  return reduce<T>(requests, arrived, std::numeric_limits<T>::min(),
                   [](T a, T b) { return a < b ? b : a; });
}

unsigned matching(const Requests& requests, unsigned arrived, uint64_t value) {
  unsigned lanes = 0;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    if ((arrived >> lane & 1u) != 0 && requests[lane]->value == value) lanes |= 1u << lane;
  }
  return lanes;
}

}  // namespace

uint64_t warp_result(const Requests& requests, unsigned arrived, int lane, int* missing_source) {
  const WarpRequest& request = *requests[static_cast<size_t>(lane)];
  const unsigned ballot = arrived & ~matching(requests, arrived, 0);
  *missing_source = -1;
  switch (request.kind) {
    case WarpKind::kSync:
      return 0;
    case WarpKind::kShuffle:
    case WarpKind::kShuffleUp:
    case WarpKind::kShuffleDown:
    case WarpKind::kShuffleXor: {
      const int source = source_lane(request, lane);
      if (source < kWarpLanes && (arrived >> source & 1u) != 0) return requests[source]->value;
      *missing_source = source;
      return ~uint64_t{0};
    }
    case WarpKind::kBallot:
      return ballot;
    case WarpKind::kAny:
      return ballot != 0;
    case WarpKind::kAll:
      return ballot == arrived;
    case WarpKind::kMatchAny:
      return matching(requests, arrived, request.value);
    case WarpKind::kAddUnsigned:
    case WarpKind::kAddSigned:
      return reduce<uint32_t>(requests, arrived, 0, [](uint32_t a, uint32_t b) { return a + b; });
    case WarpKind::kMinUnsigned:
      return smallest<uint32_t>(requests, arrived);
    case WarpKind::kMaxUnsigned:
      return largest<uint32_t>(requests, arrived);
    case WarpKind::kMinSigned:
      return smallest<int32_t>(requests, arrived);
    case WarpKind::kMaxSigned:
      return largest<int32_t>(requests, arrived);
    case WarpKind::kAnd:
      return reduce<uint32_t>(requests, arrived, ~0u, [](uint32_t a, uint32_t b) { return a & b; });
    case WarpKind::kOr:
      return reduce<uint32_t>(requests, arrived, 0, [](uint32_t a, uint32_t b) { return a | b; });
    case WarpKind::kXor:
      return reduce<uint32_t>(requests, arrived, 0, [](uint32_t a, uint32_t b) { return a ^ b; });
  }
  return 0;
}

}  // namespace kinet::emulation
