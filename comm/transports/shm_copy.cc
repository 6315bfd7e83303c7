#include "comm/transports/shm_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace kinet {

#ifdef __SSE2__

void shm_copy_streamed(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kLine = 64;  // four stores fill a line: it is written at once
  const size_t odd = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  const size_t before = std::min(odd, bytes);
  std::memcpy(to, from, before);
  size_t i = before;
  for (; bytes - i >= kLine; i += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + i, from + i, bytes - i);
  _mm_sfence();  // non-temporal stores are ordered by nothing else
}

#else

void shm_copy_streamed(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace kinet
