// Two-dimensional convolution of a batch by matrix products, block by block.
//
// Equation (one group): Y = W X~ ; dW += dY X~' ; dX~ = W' dY, where X~ are the image's columns
// (im2col.h) and dX is dX~ put back (col2im).
//
// Blocks: the columns of a whole batch would be many times the size of the images, and those of a
// large image do not fit a cache. A block is a band of output rows of one image or, when an image
// has fewer outputs than a good matrix product needs, several whole images, whose results then pass
// through a staging buffer. A 1x1 convolution with stride 1 needs no columns at all. Where each
// group has a single input channel (depthwise) a product would have one row: plain loops instead.
//
// Threads: by image where there are enough of them; each thread then sums weight gradients of its
// own, added at the end in a fixed order. Otherwise forward is divided by bands of output rows and
// backward by input channels.
// Thread safety: a ConvPlan is immutable; the workspace belongs to one call at a time.
#pragma once

#include <cstddef>

#include "src/math/im2col.h"

namespace kinet {

struct ConvGeometry {
  Window2d window;
  int64_t images = 0, channels = 0, outputs = 0, groups = 1;

  int64_t group_channels() const { return channels / groups; }
  int64_t group_outputs() const { return outputs / groups; }
  int64_t depth() const { return group_channels() * window.taps(); }  // inner dimension
  int64_t weights() const { return outputs * depth(); }
  int64_t input() const { return channels * window.image(); }    // floats of one image
  int64_t output() const { return outputs * window.outputs(); }  // floats of one image's result
  double macs() const { return static_cast<double>(images) * output() * depth(); }
};

class ConvPlan {
 public:
  ConvPlan() = default;
  ConvPlan(const ConvGeometry& geometry, int threads);

  const ConvGeometry& geometry() const { return g_; }
  size_t workspace_floats() const;

  // All take at most the planned number of threads. bias may be null.
  void forward(int threads, const float* x, const float* weights, const float* bias, float* y,
               float* workspace) const;
  // ADDS to dw.
  void backward_weights(int threads, const float* x, const float* dy, float* dw,
                        float* workspace) const;
  // ADDS to db; needs no workspace.
  void backward_bias(int threads, const float* dy, float* db) const;
  // OVERWRITES dx.
  void backward_data(int threads, const float* dy, const float* weights, float* dx,
                     float* workspace) const;

 private:
  // Output rows [row, row + rows) of images [image, image + images).
  struct Block {
    int64_t image, images, row, rows;
  };
  // Input channels [first, first + count) of one group.
  struct Channels {
    int64_t group, first, count;
  };

  bool by_image(int threads) const;
  int64_t columns_of(const Block& block) const;  // how many
  const float* make_columns(const Block& block, const Channels& channels, const float* x,
                            float* buffer, int64_t* ld) const;
  int64_t output_offset(const Block& block, int64_t group) const;
  const float* gather_outputs(const Block& block, int64_t group, const float* dy, float* stage,
                              int64_t* ld) const;
  void forward_block(const Block& block, const float* x, const float* weights, const float* bias,
                     float* y, float* buffer) const;
  void finish_outputs(const Block& block, int64_t group, const float* bias, const float* stage,
                      float* y) const;
  void weights_block(const Block& block, const Channels& channels, const float* x, const float* dy,
                     float* dw, float* buffer) const;
  void data_block(const Block& block, const Channels& channels, const float* dy,
                  const float* weights, float* dx, float* buffer) const;
  template <class Body>
  void for_each_block(int64_t image_begin, int64_t image_end, const Body& body) const;
  template <class Body>
  void for_each_group(const Body& body) const;
  template <class Body>
  void for_each_channel_part(int threads, const Body& body) const;

  ConvGeometry g_;
  int threads_ = 1;
  bool direct_ = false;     // 1x1, stride 1, no padding: the image is its own columns
  bool depthwise_ = false;  // one input channel a group
  int64_t block_images_ = 1, block_rows_ = 1;
  int64_t stage_offset_ = 0, block_floats_ = 0;  // of one thread's part of the workspace
};

}  // namespace kinet
