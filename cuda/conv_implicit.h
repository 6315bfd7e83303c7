// Convolution on the device by implicit GEMM (conv_gemm.h): no columns are stored.
//
// Shapes and equations: layers/convolution.h, cuda/conv_shape.h. All pointers are device memory;
// work goes to the stream of `gpu` and nothing waits. Workspaces hold implicit_workspace_floats()
// floats, 16-byte aligned, free again when the next work on the stream begins. Same arguments, same
// bits: sums are split by shape alone and added in a fixed order. Thread safety: functions; one
// call at a time for one Gpu.
#pragma once

#include "cuda/conv_shape.h"
#include "cuda/layer.h"
#include "cuda/relu.h"

namespace kinet {

// What products are computed with; sums are float32 in all. kTf32 keeps 10 bits of mantissa of each
// factor, kBf16 7; both need sm_80.
enum class ConvMath { kFloat32, kTf32, kBf16 };

// Sizes of a block's part of the product: 32x128, 64x64 and 128x128. kAuto: the narrow one for up
// to 32 rows, the large one where more than half of it is used and its blocks fill the device.
enum class ConvTile { kAuto, kNarrow, kSmall, kLarge };

struct ImplicitOptions {
  ConvMath math = ConvMath::kFloat32;
  ConvTile tile = ConvTile::kAuto;
};

size_t implicit_workspace_floats(const ConvGeometry& g);

// y = conv(x, weights), with its ending.
void implicit_forward(const Gpu& gpu, const ConvGeometry& g, const ImplicitOptions& options,
                      const float* x, const float* weights, const Ending& ending, float* y,
                      float* workspace);
// OVERWRITES dx.
void implicit_backward_data(const Gpu& gpu, const ConvGeometry& g, const ImplicitOptions& options,
                            const float* dy, const float* weights, float* dx, float* workspace);
// ADDS to dw.
void implicit_backward_weights(const Gpu& gpu, const ConvGeometry& g,
                               const ImplicitOptions& options, const float* x, const float* dy,
                               float* dw, float* workspace);

}  // namespace kinet
