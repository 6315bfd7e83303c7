// LRN: local response normalisation, over neighbouring channels or neighbouring pixels.
//
// Equation: scale = k + (alpha / n) * sum of x^2 over a window around each value;
//   y = x * scale^-beta;
//   dx = dy * scale^-beta - (2 alpha beta / n) * x * sum over the window of (dy x scale^(-beta-1)).
//   ACROSS_CHANNELS: a window of local_size channels, n = local_size.
//   WITHIN_CHANNEL: local_size x local_size pixels, n = local_size^2, and k = 1 as in Caffe.
//   Windows are cut off at the borders; n is not.
// Shapes: top as bottom, N x C x H x W.
// Reference: Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional
//   neural networks", NIPS 2012, section 3.3.
#pragma once

#include "src/net/layer.h"

namespace kinet {

class LrnLayer : public Layer {
 public:
  static LayerType describe();

  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override;
  BackwardNeeds needs() const override { return {.bottom_data = true}; }
  std::string summary() const override;

 protected:
  // For subclasses that run on another device.
  bool across_ = true;
  int64_t size_ = 5;
  float alpha_ = 1, beta_ = 0.75f, k_ = 1;
  float factor_ = 0;  // alpha / n
  Shape shape_;
  Workspace scale_;  // saved

 private:
  // A tile is what one thread handles at once: `rows` rows of `length` values, `stride` floats
  // apart. ACROSS: a strip of pixels of all channels; WITHIN: the rows of one plane.
  struct Tile {
    int64_t offset, rows, length, stride;
  };
  Tile tile(int64_t index) const;
  const float* sum_columns(const Tile& tile, const float* values, float* out) const;
  void sum_rows(const Tile& tile, const float* values, int64_t row, float* out) const;
  void forward_tile(const Tile& tile, const float* x, float* scale, float* y, float* scratch) const;
  void backward_tile(const Tile& tile, const float* x, const float* scale, const float* dy,
                     float* dx, float* scratch) const;

  int64_t strip_ = 0, strips_ = 0, tiles_ = 0;  // pixels of a strip; strips of an image
  int64_t scratch_floats_ = 0;                  // of one thread
  int planned_threads_ = 1;
  Workspace scratch_;
};

}  // namespace kinet
