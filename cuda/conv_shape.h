// Sizes of a convolution as kernels see them, and the matrices of pixels and taps that turn it into
// matrix products without ever being stored.
//
// A convolution of one group is three products of matrices (layers/convolution.h, with
// X~ = im2col(x), k = (c, r, s) a tap and p = (n, i, j) an output pixel):
//
//   forward             Y[o, p]  = sum over k of W[o, k] X~[k, p]
//   data gradient      dX[c, q]  = sum over t of W'[c, t] dY~[t, q]   t = (o, r, s), q = (n, h, w)
//   weight gradient    dW[o, k]  = sum over p of dY[o, p] X~[k, p]
//
// An element of X~ lies at pixel + tap: offsets and coordinates of both simply add up, so that each
// is decoded once and not once per element. dY~ is alike, except that coordinates subtract and must
// be multiples of the stride.
// Limits: 32-bit indices, hence at most kMaxLaunchFloats floats a launch; ConvShape::images says
// how many images a launch has. Thread safety: plain values.
#pragma once

#include <cstdint>

#include "cuda/divide.h"
#include "cuda/gpu.h"
#include "src/math/convolution.h"

namespace kinet {

// Most floats of x, and of y, in one launch, so that sums of three indices fit 31 bits.
inline constexpr int64_t kMaxLaunchFloats = int64_t{1} << 29;

// n / d and n % d.
struct Division {
  int quotient, rest;
};
inline __device__ Division divide(int n, const FastDivide& divisor) {
  const auto value = static_cast<uint32_t>(n);
  return {static_cast<int>(divisor.quotient(value)), static_cast<int>(divisor.remainder(value))};
}

// x: images x channels x height x width; y: images x outputs x out_h x out_w.
struct ConvShape {
  int images, channels, height, width;
  int outputs, out_h, out_w;
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int groups;

  // REQUIRES: fits_launch(g)
  static ConvShape of(const ConvGeometry& g) {
    const auto i = [](int64_t value) { return static_cast<int>(value); };
    const ConvAxis &h = g.window.h, &w = g.window.w;
    return {i(g.images),    i(g.channels), i(h.size),     i(w.size),   i(g.outputs), i(h.outputs()),
            i(w.outputs()), i(h.kernel),   i(w.kernel),   i(h.stride), i(w.stride),  i(h.pad),
            i(w.pad),       i(h.dilation), i(w.dilation), i(g.groups)};
  }

  __host__ __device__ int group_channels() const { return channels / groups; }
  __host__ __device__ int group_outputs() const { return outputs / groups; }
  __host__ __device__ int taps() const { return kernel_h * kernel_w; }
  __host__ __device__ int image() const { return height * width; }
  __host__ __device__ int pixels() const { return out_h * out_w; }
  int64_t input() const { return int64_t{channels} * image(); }   // floats of one image
  int64_t output() const { return int64_t{outputs} * pixels(); }  // and of its result
  int64_t weights() const { return int64_t{outputs} * group_channels() * taps(); }
  // 1x1, stride 1, no padding: x is its own matrix of columns.
  bool direct() const {
    return taps() == 1 && stride_h == 1 && stride_w == 1 && pad_h == 0 && pad_w == 0;
  }
  bool strided() const { return stride_h > 1 || stride_w > 1; }
  // One input channel for each group: nothing is summed over channels.
  bool depthwise() const { return groups > 1 && group_channels() == 1; }
};

// Where a pixel or a tap lies: the offset of its element and its coordinates.
struct ConvPoint {
  int offset, h, w;
};

// Coordinates that no tap brings back into an image.
inline constexpr int kOutside = -(1 << 30);

// X~: the patches of x. Element (tap, pixel) is x at the sum of both points, or 0 outside.
struct ConvPatches {
  const float* base;  // the first group's channels of the first image
  int group_floats;   // from one group to the next
  int height, width, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int image_floats;  // from one image to the next
  int pixel_count, tap_count;
  FastDivide per_image, per_row, per_channel, per_tap_row;

  ConvPatches(const ConvShape& s, const float* input)
      : base(input),
        group_floats(s.group_channels() * s.image()),
        height(s.height),
        width(s.width),
        stride_h(s.stride_h),
        stride_w(s.stride_w),
        pad_h(s.pad_h),
        pad_w(s.pad_w),
        dilation_h(s.dilation_h),
        dilation_w(s.dilation_w),
        image_floats(s.channels * s.image()),
        pixel_count(s.images * s.pixels()),
        tap_count(s.group_channels() * s.taps()),
        per_image(s.pixels()),
        per_row(s.out_w),
        per_channel(s.taps()),
        per_tap_row(s.kernel_w) {}

  // Output pixel p = (n, i, j).
  __device__ ConvPoint pixel(int p) const {
    if (p >= pixel_count) return {0, kOutside, kOutside};
    const auto [n, ij] = divide(p, per_image);
    const auto [i, j] = divide(ij, per_row);
    const int h = i * stride_h - pad_h, w = j * stride_w - pad_w;
    return {n * image_floats + h * width + w, h, w};
  }
  // Tap k = (c, r, s).
  __device__ ConvPoint tap(int k) const {
    if (k >= tap_count) return {0, kOutside, kOutside};
    const auto [c, rs] = divide(k, per_channel);
    const auto [r, s] = divide(rs, per_tap_row);
    const int h = r * dilation_h, w = s * dilation_w;
    return {(c * height + h) * width + w, h, w};
  }
  // Gives false where the element is 0.
  __device__ bool locate(const ConvPoint& tap, const ConvPoint& pixel, int* offset) const {
    const int h = pixel.h + tap.h, w = pixel.w + tap.w;
    *offset = pixel.offset + tap.offset;
    return static_cast<unsigned>(h) < static_cast<unsigned>(height) &&
           static_cast<unsigned>(w) < static_cast<unsigned>(width);
  }
};

// dY~: which outputs an input pixel q = (n, h, w) went into, by t = (o, r, s):
//   dY~[t, q] = dy[n, o, i, j] where i stride_h = h + pad_h - r dilation_h, j alike; else 0.
struct ConvOutputs {
  const float* base;  // the first group's outputs of the first image
  int group_floats;   // from one group to the next
  int out_h, out_w, pad_h, pad_w, dilation_h, dilation_w;
  int image_floats, pixel_count, tap_count;
  FastDivide per_image, per_row, per_channel, per_tap_row, stride_h, stride_w;

  ConvOutputs(const ConvShape& s, const float* output_diff)
      : base(output_diff),
        group_floats(s.group_outputs() * s.pixels()),
        out_h(s.out_h),
        out_w(s.out_w),
        pad_h(s.pad_h),
        pad_w(s.pad_w),
        dilation_h(s.dilation_h),
        dilation_w(s.dilation_w),
        image_floats(s.outputs * s.pixels()),
        pixel_count(s.images * s.image()),
        tap_count(s.group_outputs() * s.taps()),
        per_image(s.image()),
        per_row(s.width),
        per_channel(s.taps()),
        per_tap_row(s.kernel_w),
        stride_h(s.stride_h),
        stride_w(s.stride_w) {}

  __device__ ConvPoint pixel(int q) const {
    if (q >= pixel_count) return {0, kOutside, kOutside};
    const auto [n, hw] = divide(q, per_image);
    const auto [h, w] = divide(hw, per_row);
    return {n * image_floats, h + pad_h, w + pad_w};
  }
  __device__ ConvPoint tap(int t) const {
    if (t >= tap_count) return {0, -kOutside, -kOutside};
    const auto [o, rs] = divide(t, per_channel);
    const auto [r, s] = divide(rs, per_tap_row);
    return {o * out_h * out_w, r * dilation_h, s * dilation_w};
  }
  __device__ bool locate(const ConvPoint& tap, const ConvPoint& pixel, int* offset) const {
    const int h = pixel.h - tap.h, w = pixel.w - tap.w;
    *offset = 0;
    if (h < 0 || w < 0) return false;
    const auto [i, rest_h] = divide(h, stride_h);
    const auto [j, rest_w] = divide(w, stride_w);
    *offset = pixel.offset + tap.offset + i * out_w + j;
    return rest_h == 0 && rest_w == 0 && i < out_h && j < out_w;
  }
};

}  // namespace kinet
