// Products and sums of a tensor with a vector that is repeated over its outer and inner axes:
// what Scale, Bias and BatchNorm are made of.
//
// Shapes: x, y are outer x count x inner; vectors have `count` entries. y may equal x.
// Thread safety: pure functions. Every sum has a fixed order, the same for any number of threads.
#pragma once

#include <cstdint>

namespace kinet {

struct Broadcast {
  int64_t outer = 1, count = 1, inner = 1;
};

// y = x * scale + shift; either vector may be null.
void broadcast_affine(int threads, const Broadcast& b, const float* x, const float* scale,
                      const float* shift, float* y);

// y = (x - mean) * factor: exactly 0 where x is the mean, which x * factor + shift is not.
void broadcast_normalize(int threads, const Broadcast& b, const float* x, const float* mean,
                         const float* factor, float* y);

// out[d] = sum over outer and inner of x, in double.
void broadcast_sum(int threads, const Broadcast& b, const float* x, double* out);

// out[d] = sum over outer and inner of x * y, in double.
void broadcast_dot(int threads, const Broadcast& b, const float* x, const float* y, double* out);

}  // namespace kinet
