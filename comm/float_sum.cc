// Blocks of a page go through a small buffer, so that `to` may be any of the sources, and that with
// many sources each is read once and `to` written once.
#include "comm/float_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace kinet {
namespace {

constexpr size_t kBlock = 1024;  // floats: the buffer stays in the first cache

#if defined(__x86_64__) && defined(__GNUC__)
#define KINET_AVX2 __attribute__((target("avx2")))
#define KINET_HAS_AVX2 __builtin_cpu_supports("avx2")
#else
#define KINET_AVX2
#define KINET_HAS_AVX2 false
#endif

// The bodies are the same; the second may use wider registers. Additions only: the same bits.
inline __attribute__((always_inline)) void add_loop(const float* a, const float* b, float* to,
                                                    size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}
void add_plain(const float* a, const float* b, float* to, size_t count) {
  add_loop(a, b, to, count);
}
KINET_AVX2 void add_avx2(const float* a, const float* b, float* to, size_t count) {
  add_loop(a, b, to, count);
}

using Add = void (*)(const float*, const float*, float*, size_t);

Add choose_add() { return KINET_HAS_AVX2 ? add_avx2 : add_plain; }

}  // namespace

void sum_floats(std::span<const float* const> sources, float* to, size_t count) {
  static const Add add = choose_add();
  if (sources.size() == 1) {
    if (to != sources[0]) std::memcpy(to, sources[0], count * sizeof(float));
    return;
  }
  if (sources.size() == 2) return add(sources[0], sources[1], to, count);
  std::array<float, kBlock> sum;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    add(sources[0] + begin, sources[1] + begin, sum.data(), n);
    for (size_t s = 2; s + 1 < sources.size(); ++s) {
      add(sum.data(), sources[s] + begin, sum.data(), n);
    }
    add(sum.data(), sources.back() + begin, to + begin, n);
  }
}

}  // namespace kinet
