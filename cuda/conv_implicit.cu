// See conv_implicit.h.
#include "cuda/conv_gemm.h"
#include "cuda/conv_implicit.h"
#include "cuda/conv_sums.h"

namespace kinet {
namespace {

constexpr int64_t kMostGridYz = 65535;
// Floats of all slices of a weight gradient together: 64 MiB.
constexpr int64_t kMostSliceFloats = int64_t{1} << 24;
// Slabs of the inner dimension that make a slice worth a block of its own.
constexpr int64_t kLeastSliceSlabs = 16;
constexpr int kSlab = 16;  // the largest Math::kDepth

int64_t padded_rows(int64_t rows) { return divide_up(rows, 4) * 4; }

// --- weights, packed: the rows of each matrix become columns, padded with zeros

constexpr int kPackTile = 32, kPackRows = 8;

// to[b][c][r] = from[b][r][c] for r < rows, 0 up to `ld`. A tile passes through shared memory, so
// that reads and writes are coalesced both.
__global__ void __launch_bounds__(kPackTile* kPackRows)
    pack_weights_kernel(int batch, int rows, int columns, int ld, const float* from, float* to) {
  __shared__ float tile[kPackTile][kPackTile + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int column = static_cast<int>(blockIdx.x) * kPackTile;
  for (int b = static_cast<int>(blockIdx.z); b < batch; b += static_cast<int>(gridDim.z)) {
    const float* source = from + static_cast<int64_t>(b) * rows * columns;
    float* target = to + static_cast<int64_t>(b) * columns * ld;
    for (int row = static_cast<int>(blockIdx.y) * kPackTile; row < ld;
         row += static_cast<int>(gridDim.y) * kPackTile) {
      for (int i = y; i < kPackTile; i += kPackRows) {
        const int r = row + i, c = column + x;
        tile[i][x] = r < rows && c < columns ? source[static_cast<int64_t>(r) * columns + c] : 0.f;
      }
      __syncthreads();
      for (int i = y; i < kPackTile; i += kPackRows) {
        const int c = column + i, r = row + x;
        if (c < columns && r < ld) target[static_cast<int64_t>(c) * ld + r] = tile[x][i];
      }
      __syncthreads();
    }
  }
}

void pack_weights(const Gpu& gpu, int64_t batch, int64_t rows, int64_t columns, const float* from,
                  float* to) {
  const int64_t ld = padded_rows(rows);
  const dim3 grid(static_cast<unsigned>(divide_up(columns, kPackTile)),
                  static_cast<unsigned>(std::min(divide_up(ld, kPackTile), kMostGridYz)),
                  static_cast<unsigned>(std::min(batch, kMostGridYz)));
  KINET_LAUNCH(pack_weights_kernel, grid, dim3(kPackTile, kPackRows), 0, gpu.stream,
               static_cast<int>(batch), static_cast<int>(rows), static_cast<int>(columns),
               static_cast<int>(ld), from, to);
  KINET_CUDA_CHECK_LAUNCH();
}

// --- products

struct GemmSize {
  int64_t rows, columns, groups, slices, slice_depth;
};

template <class Math, class Operands>
void launch_gemm(const Gpu& gpu, const GemmSize& size, const Operands& operands,
                 const ConvResult& result) {
  using Tile = typename Math::Tile;
  const int64_t most_groups = std::max<int64_t>(kMostGridYz / size.slices, 1);
  for (int64_t group = 0; group < size.groups; group += most_groups) {
    const int64_t groups = std::min(most_groups, size.groups - group);
    const int64_t row_tiles = divide_up(size.rows, Tile::kRows);
    const dim3 grid(static_cast<unsigned>(row_tiles * divide_up(size.columns, Tile::kColumns)), 1,
                    static_cast<unsigned>(groups * size.slices));
    const GemmParts parts{static_cast<int>(groups), static_cast<int>(group),
                          static_cast<int>(size.slice_depth), static_cast<int>(row_tiles)};
    KINET_LAUNCH((conv_gemm_kernel<Math, Operands>), grid, Tile::kThreads, 0, gpu.stream, operands,
                 result, parts);
    KINET_CUDA_CHECK_LAUNCH();
  }
}

template <class Tile>
int64_t tiles(const GemmSize& size) {
  return divide_up(size.rows, Tile::kRows) * divide_up(size.columns, Tile::kColumns) * size.groups;
}

ConvTile choose_tile(ConvTile wanted, const GemmSize& size) {
  if (wanted != ConvTile::kAuto) return wanted;
  if (size.rows <= NarrowTile::kRows && size.columns > SmallTile::kColumns)
    return ConvTile::kNarrow;
  const bool used = size.rows > SmallTile::kRows && size.columns > SmallTile::kColumns;
  const bool enough = tiles<LargeTile>(size) * size.slices >= kTargetBlocks / 2;
  return used && enough ? ConvTile::kLarge : ConvTile::kSmall;
}

template <class Tile, class Operands>
void launch_tile(const Gpu& gpu, ConvMath math, const GemmSize& size, const Operands& operands,
                 const ConvResult& result) {
  switch (math) {
    case ConvMath::kFloat32:
      return launch_gemm<Float32Math<Tile>>(gpu, size, operands, result);
    case ConvMath::kTf32:
      return launch_gemm<TensorCoreMath<Tile, false>>(gpu, size, operands, result);
    case ConvMath::kBf16:
      return launch_gemm<TensorCoreMath<Tile, true>>(gpu, size, operands, result);
  }
}

template <class Operands>
void launch(const Gpu& gpu, const ImplicitOptions& options, const GemmSize& size,
            const Operands& operands, const ConvResult& result) {
  switch (choose_tile(options.tile, size)) {
    case ConvTile::kNarrow:
      return launch_tile<NarrowTile>(gpu, options.math, size, operands, result);
    case ConvTile::kLarge:
      return launch_tile<LargeTile>(gpu, options.math, size, operands, result);
    default:
      return launch_tile<SmallTile>(gpu, options.math, size, operands, result);
  }
}

GemmSize whole_depth(int64_t rows, int64_t columns, int64_t groups, int64_t depth) {
  return {rows, columns, groups, 1, depth};
}

// The weight gradient has few results and a long sum. Slices depend on the shape alone.
GemmSize sliced_depth(const ConvGeometry& g) {
  GemmSize size = whole_depth(g.group_outputs(), g.depth(), g.groups, 0);
  const int64_t slabs = std::max<int64_t>(divide_up(g.images * g.window.outputs(), kSlab), 1);
  const int64_t most = std::max<int64_t>(kMostSliceFloats / g.weights(), 1);
  const int64_t wanted = divide_up(kTargetBlocks, tiles<SmallTile>(size));
  const int64_t slices = std::clamp<int64_t>(slabs / kLeastSliceSlabs, 1, std::min(wanted, most));
  size.slice_depth = divide_up(slabs, slices) * kSlab;
  size.slices = divide_up(slabs * kSlab, size.slice_depth);
  return size;
}

}  // namespace

size_t implicit_workspace_floats(const ConvGeometry& g) {
  const int64_t forward = g.groups * g.depth() * padded_rows(g.group_outputs());
  const int64_t data = g.outputs * g.window.taps() * padded_rows(g.group_channels());
  int64_t weights = 0;
  for_each_launch(g, [&](const ConvGeometry& part, int64_t) {
    weights = std::max(weights, sliced_depth(part).slices * g.weights());
  });
  return static_cast<size_t>(std::max({forward, data, weights}));
}

// Y[o, p] = sum over k of W[o, k] X~[k, p], plus b[o], through ReLU where asked for.
void implicit_forward(const Gpu& gpu, const ConvGeometry& g, const ImplicitOptions& options,
                      const float* x, const float* weights, const Ending& ending, float* y,
                      float* workspace) {
  pack_weights(gpu, g.groups, g.group_outputs(), g.depth(), weights, workspace);
  for_each_launch(g, [&](const ConvGeometry& part, int64_t first) {
    const ConvShape s = ConvShape::of(part);
    const WeightedGather<ConvPatches> operands{workspace,
                                               static_cast<int>(padded_rows(s.group_outputs())),
                                               ConvPatches(s, x + first * g.input())};
    const ConvResult result(y + first * g.output(), ending, s.group_outputs(), s.images, s.pixels(),
                            s.outputs * s.pixels());
    launch(gpu, options, whole_depth(s.group_outputs(), result.count, s.groups, g.depth()),
           operands, result);
  });
}

// dX[c, q] = sum over t of W'[c, t] dY~[t, q].
void implicit_backward_data(const Gpu& gpu, const ConvGeometry& g, const ImplicitOptions& options,
                            const float* dy, const float* weights, float* dx, float* workspace) {
  pack_weights(gpu, g.outputs, g.group_channels(), g.window.taps(), weights, workspace);
  for_each_launch(g, [&](const ConvGeometry& part, int64_t first) {
    const ConvShape s = ConvShape::of(part);
    const WeightedGather<ConvOutputs> operands{workspace,
                                               static_cast<int>(padded_rows(s.group_channels())),
                                               ConvOutputs(s, dy + first * g.output())};
    const ConvResult result(dx + first * g.input(), nullptr, s.group_channels(), s.images,
                            s.image(), s.channels * s.image());
    launch(gpu, options,
           whole_depth(s.group_channels(), result.count, s.groups, operands.gather.tap_count),
           operands, result);
  });
}

// dW[o, k] += sum over p of dY[o, p] X~[k, p].
void implicit_backward_weights(const Gpu& gpu, const ConvGeometry& g,
                               const ImplicitOptions& options, const float* x, const float* dy,
                               float* dw, float* workspace) {
  for_each_launch(g, [&](const ConvGeometry& part, int64_t first) {
    const ConvShape s = ConvShape::of(part);
    const PixelProducts operands(s, x + first * g.input(), dy + first * g.output());
    const auto depth = static_cast<int>(g.depth());
    ConvResult result(workspace, nullptr, s.group_outputs(), 1, depth, 0);
    result.slice_floats = g.weights();
    // A slice may begin at any float.
    result.vector = result.vector && g.weights() % 4 == 0;
    const GemmSize size = sliced_depth(part);
    launch(gpu, options, size, operands, result);
    add_slices(gpu, g.weights(), size.slices, workspace, dw);
  });
}

}  // namespace kinet
