// Pooling: the largest value, or the mean, of each window of each channel.
//
// Equation: MAX  y[i, j] = max of x over the window; the first maximum in reading order receives
//                the gradient; a NaN counts as largest, so that it is seen further on.
//           AVE  y[i, j] = sum of x over the window / divisor. Caffe's divisor: the part of the
//                window inside the padded image, so padding counts and the overhang past it does
//                not; with exclude_padding, the part inside the image.
// Shapes: bottom N x C x H x W; top N x C x H' x W' with
//   H' = ceil((H + 2 pad_h - kernel_h) / stride_h) + 1 (round_mode FLOOR: floor), less one when the
//   last window would then begin past the image. Second top (MAX): the index, row * W + column, of
//   each maximum, as float.
#pragma once

#include "src/math/im2col.h"
#include "src/net/layer.h"

namespace kinet {

class PoolingLayer : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  bool can_propagate(int bottom) const override { return bottom == 0; }
  std::string summary() const override;

 protected:
  // For subclasses that run on another device.
  enum class Method { kMax, kAve };
  Method method() const { return method_; }
  const Window2d& window() const { return window_; }
  bool excludes_padding() const { return exclude_padding_; }
  int64_t planes() const { return planes_; }
  int64_t out_h() const { return out_h_; }
  int64_t out_w() const { return out_w_; }
  Workspace index_;  // MAX, saved: where each maximum was, row * W + column, int32

 private:
  // Windows j in [begin, end) of an output row, alike in size: `cols` columns from `first` on.
  struct Run {
    int64_t begin, end;
    int64_t first, cols;
    int64_t divisor_cols;  // columns that the divisor counts
  };
  struct Rows {
    int64_t first, rows, divisor_rows;
  };

  void read_axis(const std::string& suffix, ConvAxis* axis) const;
  int64_t outputs(const ConvAxis& axis, const Shape& bottom) const;
  void make_runs();
  Rows rows_of(int64_t i) const;
  float factor(const Rows& rows, const Run& run) const;
  void make_table();
  void max_plane(const float* x, float* y, int32_t* index) const;
  // `row`: room for one row of the image.
  void ave_plane(const float* x, float* y, float* row) const;
  void ave_plane_backward(const float* dy, float* dx, float* row) const;
  int32_t* index() { return reinterpret_cast<int32_t*>(index_.data()); }

  Method method_ = Method::kMax;
  bool global_ = false, floor_ = false, exclude_padding_ = false;
  Window2d window_;
  int64_t planes_ = 0, out_h_ = 0, out_w_ = 0;
  std::vector<Run> runs_;       // of one output row: clipped windows alone, whole ones together
  std::vector<int32_t> table_;  // MAX on small planes: the pixel of every tap of every window
  int planned_threads_ = 1;
  Workspace rows_;  // AVE: a row of the image for each thread
};

}  // namespace kinet
