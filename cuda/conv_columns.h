// Convolution on the device by im2col and cuBLAS: the columns of some images at a time are written
// to a workspace, then multiplied by strided batches of products.
//
// Equations: src/math/convolution.h. A 1x1 convolution with stride 1 and no padding writes no
// columns. All pointers are device memory; work goes to the stream of `gpu` and nothing waits.
// Workspaces hold columns_workspace_floats() floats. Same arguments, same bits: weight gradients of
// images that are multiplied together have a result each, which are added in order.
// Thread safety: functions; one call at a time for one Gpu.
#pragma once

#include "cuda/conv_shape.h"
#include "cuda/layer.h"
#include "cuda/relu.h"

namespace kinet {

size_t columns_workspace_floats(const ConvGeometry& g);

// y = conv(x, weights), with its ending.
void columns_forward(const Gpu& gpu, const ConvGeometry& g, const float* x, const float* weights,
                     const Ending& ending, float* y, float* workspace);
// OVERWRITES dx.
void columns_backward_data(const Gpu& gpu, const ConvGeometry& g, const float* dy,
                           const float* weights, float* dx, float* workspace);
// ADDS to dw.
void columns_backward_weights(const Gpu& gpu, const ConvGeometry& g, const float* x,
                              const float* dy, float* dw, float* workspace);

}  // namespace kinet
