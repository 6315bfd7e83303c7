// Which way a convolution is computed on the device, pass by pass.
//
// Rule of kAuto, from counting; it has not been tuned on a device:
//   1. depthwise groups (more than one group, one channel each): kDepthwise, direct kernels.
//   2. direct (1x1, stride 1, no padding): kColumns. There are no columns to write: the images are
//      multiplied as they are.
//   3. with tensor cores (math is not kFloat32): kImplicit, but kColumns for the data gradient of a
//      strided convolution.
//   4. kColumns from kColumnsRows rows of the product on, kImplicit below. Columns are written and
//      read once, 8 bytes for each 2 M FLOP of a product with M rows: on a device of F FLOP/s and W
//      bytes/s they cost 4 F / (M W) of the product's time, 52 / M on an A100 and 73 / M on an
//      H100. A hand-written product is taken to reach 7/10 of cuBLAS, so columns pay from M = 52 /
//      0.4 = 130 (A100) or 180 (H100) on. M are the outputs of a group, for the data gradient its
//      channels.
//   5. kColumns for the data gradient of a strided convolution: gathered, stride_h * stride_w times
//   as
//      many products are formed as are not zero.
// Limits: kColumns needs the columns of one image to fit kMaxLaunchFloats; kImplicit is taken where
// they do not.
// Thread safety: pure functions.
#pragma once

#include "cuda/conv_implicit.h"

namespace kinet {

enum class ConvEngine { kAuto, kColumns, kImplicit, kDepthwise };
enum class ConvPass { kForward, kData, kWeights };

inline constexpr int64_t kColumnsRows = 192;

// Whether one image, padded, fits a launch; else the layer refuses.
inline bool conv_fits(const ConvGeometry& g) {
  const ConvAxis &h = g.window.h, &w = g.window.w;
  const auto padded = [](const ConvAxis& axis) { return axis.size + 2 * axis.pad; };
  return g.input() <= kMaxLaunchFloats && g.output() <= kMaxLaunchFloats &&
         padded(h) <= kMaxLaunchFloats && padded(w) <= kMaxLaunchFloats &&
         padded(h) * padded(w) <= kMaxLaunchFloats && g.weights() <= kMaxLaunchFloats &&
         h.stride <= kMaxLaunchFloats && w.stride <= kMaxLaunchFloats;
}

// REQUIRES: conv_fits(g). kDepthwise is possible only where each group has one channel.
inline ConvEngine choose_engine(const ConvGeometry& g, ConvPass pass, ConvEngine wanted,
                                ConvMath math) {
  const ConvShape s = ConvShape::of(g);
  const bool columns_fit =
      s.direct() || g.channels * g.window.taps() * g.window.outputs() <= kMaxLaunchFloats;
  if (wanted == ConvEngine::kColumns && !columns_fit) return ConvEngine::kImplicit;
  if (wanted != ConvEngine::kAuto) return wanted;
  if (s.depthwise()) return ConvEngine::kDepthwise;
  if (s.direct()) return ConvEngine::kColumns;
  if (!columns_fit) return ConvEngine::kImplicit;
  if (pass == ConvPass::kData && s.strided()) return ConvEngine::kColumns;
  if (math != ConvMath::kFloat32) return ConvEngine::kImplicit;
  const int64_t rows = pass == ConvPass::kData ? s.group_channels() : s.group_outputs();
  return rows >= kColumnsRows ? ConvEngine::kColumns : ConvEngine::kImplicit;
}

}  // namespace kinet
