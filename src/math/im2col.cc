#include "src/math/im2col.h"

#include <algorithm>
#include <cstring>

#include "src/math/vec.h"

namespace kinet {

namespace {

constexpr int64_t kLongRow = 64;  // floats; from here on a call is cheaper than an inline loop

// The outputs [begin, end) along one axis whose tap `offset` (pixels) falls inside the image.
struct Inside {
  int64_t begin, end;
};

Inside inside(const ConvAxis& axis, int64_t offset, int64_t outputs) {
  const int64_t first = axis.pad - offset;  // in pixels: output o reads pixel o * stride - first
  const int64_t begin = first > 0 ? (first + axis.stride - 1) / axis.stride : 0;
  const int64_t last = axis.size - 1 + first;
  const int64_t end = last < 0 ? 0 : std::min(outputs, last / axis.stride + 1);
  return {std::min(begin, end), end};
}

// Rows of small images are a few floats long: four at a time, the last four overlapping.
inline void copy_row(int64_t n, const float* x, float* y) {
  if (n >= kLongRow) {
    std::memcpy(y, x, n * sizeof(float));
  } else if (n >= 4) {
    for (int64_t i = 0; i + 4 <= n; i += 4) {
      std::memcpy(y + i, x + i, 4 * sizeof(float));
      asm volatile("" ::: "memory");  // or the compiler makes it one call of memcpy again
    }
    std::memcpy(y + n - 4, x + n - 4, 4 * sizeof(float));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  }
}

inline void gather_row(int64_t n, int64_t stride, const float* x, float* y) {
  if (stride == 1) return copy_row(n, x, y);
  if (n >= kLongRow) return vec().gather(n, stride, x, y);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i * stride];
}

inline void scatter_add_row(int64_t n, int64_t stride, const float* x, float* y) {
  if (stride == 1) {
    if (n >= kLongRow) return vec().add(n, x, y, y);
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * stride] += x[i];
  }
}

// Calls row(column row, output row, first pixel of the image row or null, inside) for every row of
// every tap; null where the whole image row is padding.
template <class Row>
void for_each_row(const Window2d& window, int64_t channels, int64_t row_begin, int64_t row_end,
                  const Row& row) {
  const int64_t out_w = window.w.outputs();
  int64_t column_row = 0;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t r = 0; r < window.h.kernel; ++r) {
      for (int64_t s = 0; s < window.w.kernel; ++s, ++column_row) {
        const int64_t tap = s * window.w.dilation;
        const Inside columns = inside(window.w, tap, out_w);
        for (int64_t i = row_begin; i < row_end; ++i) {
          const int64_t y = i * window.h.stride - window.h.pad + r * window.h.dilation;
          const bool padding = y < 0 || y >= window.h.size;
          const int64_t at = (c * window.h.size + y) * window.w.size + tap - window.w.pad;
          row(column_row, i - row_begin, padding ? Inside{0, 0} : columns, at);
        }
      }
    }
  }
}

}  // namespace

void im2col(const Window2d& window, int64_t channels, const float* image, int64_t row_begin,
            int64_t row_end, float* columns, int64_t ld) {
  const int64_t out_w = window.w.outputs(), stride = window.w.stride;
  for_each_row(window, channels, row_begin, row_end,
               [=](int64_t column_row, int64_t row, Inside in, int64_t at) {
                 float* out = columns + column_row * ld + row * out_w;
                 for (int64_t j = 0; j < in.begin; ++j) out[j] = 0;
                 gather_row(in.end - in.begin, stride, image + at + in.begin * stride,
                            out + in.begin);
                 for (int64_t j = in.end; j < out_w; ++j) out[j] = 0;
               });
}

void col2im(const Window2d& window, int64_t channels, const float* columns, int64_t ld,
            int64_t row_begin, int64_t row_end, float* image) {
  const int64_t out_w = window.w.outputs(), stride = window.w.stride;
  for_each_row(window, channels, row_begin, row_end,
               [=](int64_t column_row, int64_t row, Inside in, int64_t at) {
                 scatter_add_row(in.end - in.begin, stride,
                                 columns + column_row * ld + row * out_w + in.begin,
                                 image + at + in.begin * stride);
               });
}

}  // namespace kinet
