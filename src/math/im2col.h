// Image to columns and back: turns a convolution into a matrix product.
//
// Equation: columns[(c, r, s), (i, j)] = image[c, i * stride_h - pad_h + r * dilation_h,
//                                                 j * stride_w - pad_w + s * dilation_w]
// and 0 where that lies outside the image. Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace kinet {

// Most outputs of one channel: BLAS counts them in 32 bits.
inline constexpr int64_t kMaxPixels = (int64_t{1} << 31) - 1;

// Sizes along one spatial axis. All but `size` come from fields of 31 bits, so nothing overflows.
struct ConvAxis {
  int64_t size = 0;  // of the image
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1;

  int64_t extent() const { return dilation * (kernel - 1) + 1; }  // of the kernel on the image
  int64_t outputs() const { return (size + 2 * pad - extent()) / stride + 1; }
};

struct Window2d {
  ConvAxis h, w;
  int64_t image() const { return h.size * w.size; }
  int64_t taps() const { return h.kernel * w.kernel; }
  int64_t outputs() const { return h.outputs() * w.outputs(); }
};

// Columns of the output rows [row_begin, row_end) of `channels` planes. Each of the channels * taps
// rows of `columns` holds (row_end - row_begin) * out_w values; rows begin `ld` floats apart.
void im2col(const Window2d& window, int64_t channels, const float* image, int64_t row_begin,
            int64_t row_end, float* columns, int64_t ld);

// The transpose: ADDS every column entry to the pixel it was copied from.
void col2im(const Window2d& window, int64_t channels, const float* columns, int64_t ld,
            int64_t row_begin, int64_t row_end, float* image);

}  // namespace kinet
