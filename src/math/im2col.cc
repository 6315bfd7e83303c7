#include "src/math/im2col.h"

#include <algorithm>

#include "src/math/vec.h"

namespace kinet {

namespace {

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

// One tap of one channel: the block of outputs that fall inside the image, and where it reads.
struct TapBlock {
  int64_t column_row;    // (channel, tap)
  Inside rows, columns;  // rows count from the first output row of the call
  const float* first;    // pixel of the first output inside
  int64_t row_step;      // floats from an output row's pixels to the next one's
};

// Calls body for every tap of every channel.
template <class Body>
void for_each_tap(const Window2d& window, int64_t channels, const float* image, int64_t row_begin,
                  int64_t row_end, const Body& body) {
  const ConvAxis &h = window.h, &w = window.w;
  const int64_t out_h = h.outputs(), out_w = w.outputs();
  int64_t column_row = 0;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t r = 0; r < h.kernel; ++r) {
      Inside rows = inside(h, r * h.dilation, out_h);
      rows = {std::clamp(rows.begin, row_begin, row_end), std::clamp(rows.end, row_begin, row_end)};
      const int64_t y = rows.begin * h.stride - h.pad + r * h.dilation;
      for (int64_t s = 0; s < w.kernel; ++s, ++column_row) {
        const Inside columns = inside(w, s * w.dilation, out_w);
        const int64_t x = columns.begin * w.stride - w.pad + s * w.dilation;
        const bool none = rows.begin == rows.end || columns.begin == columns.end;
        body(TapBlock{column_row,
                      {rows.begin - row_begin, rows.end - row_begin},
                      columns,
                      none ? nullptr : image + (c * h.size + y) * w.size + x,
                      h.stride * w.size});
      }
    }
  }
}

}  // namespace

void im2col(const Window2d& window, int64_t channels, const float* image, int64_t row_begin,
            int64_t row_end, float* columns, int64_t ld) {
  const int64_t out_w = window.w.outputs(), stride = window.w.stride, rows = row_end - row_begin;
  for_each_tap(window, channels, image, row_begin, row_end, [&](const TapBlock& tap) {
    float* out = columns + tap.column_row * ld;
    const int64_t n = tap.columns.end - tap.columns.begin, inner = tap.rows.end - tap.rows.begin;
    // Padding: a tap that is not inside everywhere is cleared first.
    if (n < out_w || inner < rows) std::fill_n(out, rows * out_w, 0.0f);
    if (tap.first == nullptr) return;
    out += tap.rows.begin * out_w + tap.columns.begin;
    if (stride == 1) return vec().copy_rows(inner, n, tap.first, tap.row_step, out, out_w);
    for (int64_t i = 0; i < inner; ++i) {
      vec().gather(n, stride, tap.first + i * tap.row_step, out + i * out_w);
    }
  });
}

void col2im(const Window2d& window, int64_t channels, const float* columns, int64_t ld,
            int64_t row_begin, int64_t row_end, float* image) {
  const int64_t out_w = window.w.outputs(), stride = window.w.stride;
  for_each_tap(window, channels, image, row_begin, row_end, [&](const TapBlock& tap) {
    if (tap.first == nullptr) return;
    const float* in = columns + tap.column_row * ld + tap.rows.begin * out_w + tap.columns.begin;
    float* out = image + (tap.first - image);
    const int64_t n = tap.columns.end - tap.columns.begin, inner = tap.rows.end - tap.rows.begin;
    if (stride == 1) return vec().add_rows(inner, n, in, out_w, out, tap.row_step);
    for (int64_t i = 0; i < inner; ++i) {
      const float* x = in + i * out_w;
      float* y = out + i * tap.row_step;
      for (int64_t j = 0; j < n; ++j) y[j * stride] += x[j];
    }
  });
}

}  // namespace kinet
