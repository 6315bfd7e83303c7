// Sums around a convolution's products: bias and its gradient, and slices of a divided sum.
//
// All pointers are device memory; work goes to `gpu`'s stream. Sums have a fixed order: the same
// bits in every run. Thread safety: functions; one call at a time for one Gpu.
#pragma once

#include <algorithm>

#include "cuda/conv_shape.h"
#include "cuda/layer.h"
#include "cuda/relu.h"

namespace kinet {

// Slices of sums that would otherwise occupy too few blocks: enough for about two blocks on each
// multiprocessor of a large device (132 on an H100). A constant, not the device's own number:
// results do not depend on the device's size.
inline constexpr int64_t kTargetBlocks = 264;

inline int64_t divide_up(int64_t n, int64_t d) { return (n + d - 1) / d; }

// sum[i] += parts[0][i] + parts[1][i] + ..., `slices` parts of n floats each.
void add_slices(const Gpu& gpu, int64_t n, int64_t slices, const float* parts, float* sum);

// y[n, o, :] += bias[o], and ReLU, as the ending says; images x outputs x pixels.
void end_planes(const Gpu& gpu, int64_t images, int64_t outputs, int64_t pixels,
                const Ending& ending, float* y);

// ADDS to db: db[o] += sum over n and pixels of dy[n, o, :].
size_t bias_workspace_floats(int64_t images, int64_t outputs, int64_t pixels);
void backward_bias(const Gpu& gpu, int64_t images, int64_t outputs, int64_t pixels, const float* dy,
                   float* db, float* workspace);

// Calls body(part, first_image) for parts of the batch that each fit one launch. REQUIRES: one
// image does (CudaConvolution::reshape checks).
template <class Body>
void for_each_launch(const ConvGeometry& g, const Body& body) {
  const int64_t most =
      std::max<int64_t>(kMaxLaunchFloats / std::max<int64_t>({g.input(), g.output(), 1}), 1);
  for (int64_t first = 0; first < g.images; first += most) {
    ConvGeometry part = g;
    part.images = std::min(most, g.images - first);
    body(part, first);
  }
}

}  // namespace kinet
