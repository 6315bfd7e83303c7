// Convolution: each output channel is a weighted sum over windows of the input channels.
//
// Equation: y[n, o, i, j] = b[o] + sum over c, r, s of
//             w[o, c, r, s] * x[n, c', i * stride_h - pad_h + r * dilation_h,
//                                      j * stride_w - pad_w + s * dilation_w]
//   with c' = c + (channels / group) * (group of o), and x = 0 outside the image.
// Shapes: bottom N x C x H x W; top N x num_output x H' x W' with
//   H' = floor((H + 2 pad_h - (dilation_h (kernel_h - 1) + 1)) / stride_h) + 1, W' alike;
//   weights num_output x C/group x kernel_h x kernel_w, bias num_output.
// Several bottoms share the weights; all have the same shape.
#pragma once

#include "src/math/convolution.h"
#include "src/net/layer.h"

namespace kinet {

class ConvolutionLayer : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.bottom_data = true}; }
  double macs() const override;
  std::string summary() const override;

 protected:
  // For subclasses that run on another device: reshape() without the CPU's plan and its workspace.
  // Sets geometry().
  std::vector<Shape> reshape_geometry(const std::vector<Shape>& bottoms);
  const ConvGeometry& geometry() const { return geometry_; }
  bool has_bias() const { return bias_term_; }

 private:
  void read_window();
  void check_bottom(const Shape& shape) const;
  void check_sizes(const Shape& bottom, const Shape& top) const;

  Window2d window_;  // sizes of the image are set by reshape
  int64_t outputs_ = 0, groups_ = 1;
  bool bias_term_ = true;
  size_t bottoms_ = 0;
  ConvGeometry geometry_;
  ConvPlan plan_;
  Workspace workspace_;
};

}  // namespace kinet
