// Division of thread indices by a size that is the same for a whole launch.
//
// A 32-bit division costs a GPU about 20 instructions and a 64-bit one about 100, as much as the
// rest of an elementwise kernel. Kernels take the divider as a template parameter: FastDivide while
// a tensor has less than 2^31 values, LongDivide beyond. Reference: Granlund and Montgomery,
// "Division by invariant integers using multiplication",
//   PLDI 1994, figure 4.1.
#pragma once

#include <cstdint>

#include "cuda/gpu.h"

namespace kinet {

constexpr int64_t kFastDivideLimit = int64_t{1} << 31;  // indices below it fit FastDivide

// n / d = (high word of n m + n) >> s with s = ceil(log2 d), m = floor(2^32 (2^s - d) / d) + 1.
// REQUIRES: 1 <= d < 2^31, 0 <= n < 2^31
class FastDivide {
 public:
  using Index = uint32_t;

  FastDivide() = default;
  explicit FastDivide(int64_t divisor) : divisor_(static_cast<uint32_t>(divisor)) {
    while ((uint64_t{1} << shift_) < divisor_) ++shift_;
    const uint64_t rest = (uint64_t{1} << shift_) - divisor_;
    multiplier_ = static_cast<uint32_t>((rest << 32) / divisor_ + 1);
  }

  __device__ uint32_t quotient(uint32_t n) const {
    const auto high = static_cast<uint32_t>((static_cast<uint64_t>(n) * multiplier_) >> 32);
    return (high + n) >> shift_;
  }
  __device__ uint32_t remainder(uint32_t n) const { return n - quotient(n) * divisor_; }

 private:
  uint32_t divisor_ = 1, multiplier_ = 1, shift_ = 0;
};

// Plain 64-bit division, for tensors of 2^31 values and more.
class LongDivide {
 public:
  using Index = int64_t;

  LongDivide() = default;
  explicit LongDivide(int64_t divisor) : divisor_(divisor) {}

  __device__ int64_t quotient(int64_t n) const { return n / divisor_; }
  __device__ int64_t remainder(int64_t n) const { return n % divisor_; }

 private:
  int64_t divisor_ = 1;
};

}  // namespace kinet
