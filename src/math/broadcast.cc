#include "src/math/broadcast.h"

#include <algorithm>

#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

namespace {

constexpr int64_t kGrainFloats = 16384;  // a piece of work worth a thread

int useful_threads(int threads, const Broadcast& b) {
  const int64_t pieces = b.outer * b.count * b.inner / kGrainFloats;
  return static_cast<int>(std::clamp<int64_t>(pieces, 1, std::max(threads, 1)));
}

// inner = 1: the vector itself is a row.
void affine_row(int64_t n, const float* x, const float* scale, const float* shift, float* y) {
  if (scale != nullptr) {
    vec().mul(n, x, scale, y);
    x = y;
  }
  if (shift != nullptr) vec().add(n, x, shift, y);
}

}  // namespace

void broadcast_affine(int threads, const Broadcast& b, const float* x, const float* scale,
                      const float* shift, float* y) {
  if (b.inner == 1) {
    parallel_for(useful_threads(threads, b), b.outer, [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) {
        affine_row(b.count, x + o * b.count, scale, shift, y + o * b.count);
      }
    });
    return;
  }
  parallel_for(useful_threads(threads, b), b.outer * b.count, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t d = row % b.count;
      vec().scale_shift(b.inner, scale != nullptr ? scale[d] : 1.0f,
                        shift != nullptr ? shift[d] : 0.0f, x + row * b.inner, y + row * b.inner);
    }
  });
}

void broadcast_normalize(int threads, const Broadcast& b, const float* x, const float* mean,
                         const float* factor, float* y) {
  const int64_t rows = b.inner == 1 ? b.outer : b.outer * b.count;
  parallel_for(useful_threads(threads, b), rows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      if (b.inner == 1) {
        vec().sub(b.count, x + row * b.count, mean, y + row * b.count);
        vec().mul(b.count, y + row * b.count, factor, y + row * b.count);
      } else {
        const int64_t d = row % b.count;
        vec().shift_scale(b.inner, -mean[d], factor[d], x + row * b.inner, y + row * b.inner);
      }
    }
  });
}

void broadcast_sum(int threads, const Broadcast& b, const float* x, double* out) {
  parallel_for(useful_threads(threads, b), b.count, [&](int64_t begin, int64_t end, int) {
    std::fill(out + begin, out + end, 0.0);
    for (int64_t o = 0; o < b.outer; ++o) {
      const float* row = x + o * b.count * b.inner;
      for (int64_t d = begin; d < end; ++d) {
        out[d] += b.inner == 1 ? double{row[d]} : vec().sum(b.inner, row + d * b.inner);
      }
    }
  });
}

void broadcast_dot(int threads, const Broadcast& b, const float* x, const float* y, double* out) {
  parallel_for(useful_threads(threads, b), b.count, [&](int64_t begin, int64_t end, int) {
    std::fill(out + begin, out + end, 0.0);
    for (int64_t o = 0; o < b.outer; ++o) {
      const int64_t at = o * b.count * b.inner;
      for (int64_t d = begin; d < end; ++d) {
        out[d] += b.inner == 1 ? double{x[at + d]} * y[at + d]
                               : vec().dot(b.inner, x + at + d * b.inner, y + at + d * b.inner);
      }
    }
  });
}

}  // namespace kinet
