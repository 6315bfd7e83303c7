// Depthwise convolution on the device: every group has one input channel, so that nothing is summed
// over channels and a matrix product would have one row.
//
// Equation: y[n, o] = w[o] * x[n, o / multiplier] + b[o] (planes; * slides the window), with
//   multiplier = outputs / channels. All passes read each value a few times from the caches and are
//   bound by memory: 2 taps FLOP for 8 bytes.
// Pointers are device memory; work goes to the stream of `gpu` and nothing waits. Sums have a fixed
// order. REQUIRES: g.group_channels() == 1.
// Thread safety: functions; one call at a time for one Gpu.
#pragma once

#include "cuda/conv_shape.h"
#include "cuda/layer.h"
#include "cuda/relu.h"

namespace kinet {

// For the weight gradient.
size_t depthwise_workspace_floats(const ConvGeometry& g);

void cuda_depthwise_forward(const Gpu& gpu, const ConvGeometry& g, const float* x,
                            const float* weights, const Ending& ending, float* y);
// OVERWRITES dx.
void cuda_depthwise_backward_data(const Gpu& gpu, const ConvGeometry& g, const float* dy,
                                  const float* weights, float* dx);
// ADDS to dw.
void cuda_depthwise_backward_weights(const Gpu& gpu, const ConvGeometry& g, const float* x,
                                     const float* dy, float* dw, float* workspace);

}  // namespace kinet
