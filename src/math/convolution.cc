#include "src/math/convolution.h"

#include <algorithm>
#include <cstring>

#include "src/base/parallel.h"
#include "src/math/blas.h"
#include "src/math/depthwise.h"
#include "src/math/vec.h"

namespace kinet {

namespace {

constexpr int64_t kBlockFloats = 64 * 1024;  // 256 KB of columns: a part of a core's L2 cache
constexpr int64_t kMinColumns = 64;          // fewer columns make a product inefficient
constexpr int64_t kBandColumns = 256;        // at least this many in a band of a large image
constexpr int64_t kMaxPartialFloats = 8 * 1024 * 1024;  // 32 MB of weight gradients of threads

}  // namespace

ConvPlan::ConvPlan(const ConvGeometry& geometry, int threads)
    : g_(geometry), threads_(std::max(threads, 1)) {
  const ConvAxis &h = g_.window.h, &w = g_.window.w;
  const int64_t pixels = g_.window.outputs();
  depthwise_ = g_.group_channels() == 1 && g_.groups > 1;
  direct_ = g_.window.taps() == 1 && h.stride == 1 && w.stride == 1 && h.pad == 0 && w.pad == 0 &&
            pixels >= kMinColumns;
  block_rows_ = h.outputs();
  if (pixels < kMinColumns) {
    block_images_ =
        std::clamp<int64_t>(2 * kMinColumns / pixels, 1, std::max<int64_t>(g_.images, 1));
  } else if (!direct_ && g_.depth() * pixels > kBlockFloats) {
    const int64_t columns = std::max(kBandColumns, kBlockFloats / g_.depth());
    block_rows_ = std::clamp<int64_t>(columns / w.outputs(), 1, h.outputs());
  }
  // A thread's part of the workspace: columns of one group and block, then a stage for its outputs.
  const int64_t columns = columns_of({0, block_images_, 0, block_rows_});
  stage_offset_ = direct_ ? 0 : g_.depth() * columns;
  block_floats_ = stage_offset_ + (block_images_ > 1 ? g_.group_outputs() * columns : 0);
}

size_t ConvPlan::workspace_floats() const {
  if (depthwise_) return 0;
  const int64_t partial = by_image(threads_) ? (threads_ - 1) * g_.weights() : 0;
  return static_cast<size_t>(threads_ * block_floats_ + partial);
}

bool ConvPlan::by_image(int threads) const {
  return g_.images >= threads && (threads - 1) * g_.weights() <= kMaxPartialFloats;
}

int64_t ConvPlan::columns_of(const Block& block) const {
  return block.images * block.rows * g_.window.w.outputs();
}

template <class Body>
void ConvPlan::for_each_block(int64_t image_begin, int64_t image_end, const Body& body) const {
  const int64_t out_h = g_.window.h.outputs();
  for (int64_t image = image_begin; image < image_end; image += block_images_) {
    const int64_t images = std::min(block_images_, image_end - image);
    for (int64_t row = 0; row < out_h; row += block_rows_) {
      body(Block{image, images, row, std::min(block_rows_, out_h - row)});
    }
  }
}

template <class Body>
void ConvPlan::for_each_group(const Body& body) const {
  for (int64_t group = 0; group < g_.groups; ++group) body(Channels{group, 0, g_.group_channels()});
}

// Divides all input channels over the threads; a part that spans groups is handed out in pieces.
template <class Body>
void ConvPlan::for_each_channel_part(int threads, const Body& body) const {
  const int64_t size = g_.group_channels();
  parallel_for(threads, g_.channels, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t c = begin; c < end;) {
      const int64_t next = std::min(end, (c / size + 1) * size);
      body(Channels{c / size, c % size, next - c}, thread);
      c = next;
    }
  });
}

// ---- pieces of a block --------------------------------------------------------------------------

const float* ConvPlan::make_columns(const Block& block, const Channels& channels, const float* x,
                                    float* buffer, int64_t* ld) const {
  const int64_t plane = g_.window.image();
  const int64_t first = channels.group * g_.group_channels() + channels.first;
  x += block.image * g_.input() + first * plane;
  if (direct_ && block.images == 1) {
    *ld = plane;
    return x + block.row * g_.window.w.size;
  }
  *ld = columns_of(block);
  for (int64_t i = 0; i < block.images; ++i) {
    im2col(g_.window, channels.count, x + i * g_.input(), block.row, block.row + block.rows,
           buffer + i * g_.window.outputs(), *ld);
  }
  return buffer;
}

int64_t ConvPlan::output_offset(const Block& block, int64_t group) const {
  return block.image * g_.output() + group * g_.group_outputs() * g_.window.outputs() +
         block.row * g_.window.w.outputs();
}

// The block's rows of dY: where they are, or from several images side by side in `stage`.
const float* ConvPlan::gather_outputs(const Block& block, int64_t group, const float* dy,
                                      float* stage, int64_t* ld) const {
  const int64_t pixels = g_.window.outputs();
  dy += output_offset(block, group);
  *ld = block.images == 1 ? pixels : columns_of(block);
  if (block.images == 1) return dy;
  for (int64_t o = 0; o < g_.group_outputs(); ++o) {
    for (int64_t i = 0; i < block.images; ++i) {
      std::copy_n(dy + i * g_.output() + o * pixels, pixels, stage + o * *ld + i * pixels);
    }
  }
  return stage;
}

// Adds the bias; takes results of several images out of the stage.
void ConvPlan::finish_outputs(const Block& block, int64_t group, const float* bias,
                              const float* stage, float* y) const {
  const int64_t pixels = g_.window.outputs(), columns = columns_of(block);
  y += output_offset(block, group);
  if (block.images == 1 && bias == nullptr) return;
  for (int64_t o = 0; o < g_.group_outputs(); ++o) {
    const float shift = bias != nullptr ? bias[group * g_.group_outputs() + o] : 0.0f;
    for (int64_t i = 0; i < block.images; ++i) {
      float* out = y + i * g_.output() + o * pixels;
      const float* in = block.images == 1 ? out : stage + o * columns + i * pixels;
      vec().add_scalar(columns / block.images, shift, in, out);
    }
  }
}

void ConvPlan::forward_block(const Block& block, const float* x, const float* weights,
                             const float* bias, float* y, float* buffer) const {
  const int64_t columns = columns_of(block);
  float* stage = buffer + stage_offset_;
  for_each_group([&](const Channels& all) {
    int64_t ld;
    const float* in = make_columns(block, all, x, buffer, &ld);
    const bool staged = block.images > 1;
    float* out = staged ? stage : y + output_offset(block, all.group);
    const float* w = weights + all.group * g_.group_outputs() * g_.depth();
    gemm_strided(Trans::kNo, Trans::kNo, g_.group_outputs(), columns, g_.depth(), 1,
                 {w, g_.depth()}, {in, ld}, 0, out, staged ? columns : g_.window.outputs());
    finish_outputs(block, all.group, bias, stage, y);
  });
}

void ConvPlan::weights_block(const Block& block, const Channels& channels, const float* x,
                             const float* dy, float* dw, float* buffer) const {
  int64_t in_ld, out_ld;
  const float* in = make_columns(block, channels, x, buffer, &in_ld);
  const float* out = gather_outputs(block, channels.group, dy, buffer + stage_offset_, &out_ld);
  const int64_t taps = g_.window.taps();
  dw += channels.group * g_.group_outputs() * g_.depth() + channels.first * taps;
  gemm_strided(Trans::kNo, Trans::kYes, g_.group_outputs(), channels.count * taps,
               columns_of(block), 1, {out, out_ld}, {in, in_ld}, 1, dw, g_.depth());
}

void ConvPlan::data_block(const Block& block, const Channels& channels, const float* dy,
                          const float* weights, float* dx, float* buffer) const {
  int64_t ld;
  const float* out = gather_outputs(block, channels.group, dy, buffer + stage_offset_, &ld);
  const int64_t columns = columns_of(block), plane = g_.window.image();
  const int64_t taps = g_.window.taps();
  const bool direct = direct_ && block.images == 1;
  dx += block.image * g_.input() + (channels.group * g_.group_channels() + channels.first) * plane;
  weights += channels.group * g_.group_outputs() * g_.depth() + channels.first * taps;
  gemm_strided(Trans::kYes, Trans::kNo, channels.count * taps, columns, g_.group_outputs(), 1,
               {weights, g_.depth()}, {out, ld}, 0, direct ? dx : buffer, direct ? plane : columns);
  if (direct) return;
  for (int64_t i = 0; i < block.images; ++i) {
    float* image = dx + i * g_.input();
    if (block.row == 0) std::fill_n(image, channels.count * plane, 0.0f);
    col2im(g_.window, channels.count, buffer + i * g_.window.outputs(), columns, block.row,
           block.row + block.rows, image);
  }
}

// ---- whole batches ------------------------------------------------------------------------------

void ConvPlan::forward(int threads, const float* x, const float* weights, const float* bias,
                       float* y, float* workspace) const {
  if (depthwise_) return depthwise_forward(g_, threads, x, weights, bias, y);
  threads = std::min(threads, threads_);
  if (g_.images >= threads) {
    parallel_for(threads, g_.images, [&](int64_t begin, int64_t end, int thread) {
      float* buffer = workspace + thread * block_floats_;
      for_each_block(begin, end, [&](const Block& block) {
        forward_block(block, x, weights, bias, y, buffer);
      });
    });
    return;
  }
  const int64_t out_h = g_.window.h.outputs();
  parallel_for(threads, g_.images * out_h, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t at = begin; at < end;) {
      const int64_t row = at % out_h, rows = std::min({block_rows_, out_h - row, end - at});
      forward_block({at / out_h, 1, row, rows}, x, weights, bias, y,
                    workspace + thread * block_floats_);
      at += rows;
    }
  });
}

void ConvPlan::backward_weights(int threads, const float* x, const float* dy, float* dw,
                                float* workspace) const {
  if (depthwise_) return depthwise_backward_weights(g_, threads, x, dy, dw);
  threads = std::min(threads, threads_);
  if (!by_image(threads)) {
    for_each_channel_part(threads, [&](const Channels& channels, int thread) {
      for_each_block(0, g_.images, [&](const Block& block) {
        weights_block(block, channels, x, dy, dw, workspace + thread * block_floats_);
      });
    });
    return;
  }
  const int64_t count = g_.weights();
  float* partials = workspace + threads_ * block_floats_;  // of threads 1, 2, ...
  parallel_for(threads, g_.images, [&](int64_t begin, int64_t end, int thread) {
    float* own = thread == 0 ? dw : partials + (thread - 1) * count;
    if (thread > 0) std::fill_n(own, count, 0.0f);
    for_each_block(begin, end, [&](const Block& block) {
      for_each_group([&](const Channels& all) {
        weights_block(block, all, x, dy, own, workspace + thread * block_floats_);
      });
    });
  });
  parallel_elements(threads, count, [&](int64_t begin, int64_t end, int) {
    for (int t = 1; t < threads; ++t) {
      vec().add(end - begin, dw + begin, partials + (t - 1) * count + begin, dw + begin);
    }
  });
}

void ConvPlan::backward_bias(int threads, const float* dy, float* db) const {
  const int64_t pixels = g_.window.outputs();
  parallel_for(threads, g_.outputs, [&](int64_t begin, int64_t end, int) {
    for (int64_t o = begin; o < end; ++o) {
      double sum = 0;
      for (int64_t n = 0; n < g_.images; ++n) {
        sum += vec().sum(pixels, dy + n * g_.output() + o * pixels);
      }
      db[o] += static_cast<float>(sum);
    }
  });
}

void ConvPlan::backward_data(int threads, const float* dy, const float* weights, float* dx,
                             float* workspace) const {
  if (depthwise_) return depthwise_backward_data(g_, threads, dy, weights, dx);
  threads = std::min(threads, threads_);
  if (g_.images < threads) {
    for_each_channel_part(threads, [&](const Channels& channels, int thread) {
      for_each_block(0, g_.images, [&](const Block& block) {
        data_block(block, channels, dy, weights, dx, workspace + thread * block_floats_);
      });
    });
    return;
  }
  parallel_for(threads, g_.images, [&](int64_t begin, int64_t end, int thread) {
    for_each_block(begin, end, [&](const Block& block) {
      for_each_group([&](const Channels& all) {
        data_block(block, all, dy, weights, dx, workspace + thread * block_floats_);
      });
    });
  });
}

}  // namespace kinet
