// What the tiles of a convolution's matrix products are filled with, and where results go.
//
// Forward and data gradient: A are weights, packed depth x rows with rows padded to a multiple of 4
// (pack_weights in conv_implicit.cu), so that a thread copies 16 bytes of them whatever the shape;
// B is gathered from images: a thread has a few columns, whose pixels it decodes once, and one row
// of depth, whose tap it decodes at each step. Neighbouring lanes have neighbouring pixels. Weight
// gradient: the inner dimension are pixels. A is dY, B is X~ the other way round: a thread has four
// rows of each and one pixel of 8 at each step; neighbouring lanes have neighbouring pixels. Thread
// safety: loaders belong to a thread; the rest are plain values.
#pragma once

#include "cuda/async_copy.h"
#include "cuda/conv_math.h"
#include "cuda/conv_shape.h"
#include "cuda/relu.h"

namespace kinet {

// Depth that one call of a loader fills.
inline constexpr int kLoadDepth = 8;

// A = packed weights, B = Gather (ConvPatches: forward; ConvOutputs: data gradient).
template <class Gather>
struct WeightedGather {
  const float* weights;  // groups x depth x row_stride
  int row_stride;        // rows rounded up to a multiple of 4; 16-byte aligned
  Gather gather;

  __device__ int depth() const { return gather.tap_count; }

  template <class Tile>
  struct Loader {
    static constexpr int kAcross = Tile::kThreads / kLoadDepth;  // threads side by side
    static constexpr int kColumnsEach = Tile::kColumns / kAcross;
    static constexpr int kRowQuads = Tile::kRows / 4;
    static_assert(Tile::kColumns % kAcross == 0 && kRowQuads * kLoadDepth <= Tile::kThreads);

    const WeightedGather& from;
    const float *weights, *base;
    int row;                   // first row of the tile in A
    int k, column;             // this thread's row and first column of B
    int weight_k, weight_row;  // and what it copies of A; weight_k >= kLoadDepth: nothing
    ConvPoint pixels[kColumnsEach];

    __device__ Loader(const WeightedGather& operands, int group, int tile_row, int tile_column)
        : from(operands),
          weights(operands.weights +
                  static_cast<int64_t>(group) * operands.depth() * operands.row_stride),
          base(operands.gather.base + static_cast<int64_t>(group) * operands.gather.group_floats),
          row(tile_row),
          k(static_cast<int>(threadIdx.x) / kAcross),
          column(static_cast<int>(threadIdx.x) % kAcross),
          weight_k(static_cast<int>(threadIdx.x) / kRowQuads),
          weight_row(static_cast<int>(threadIdx.x) % kRowQuads * 4) {
#pragma unroll
      for (int i = 0; i < kColumnsEach; ++i) {
        pixels[i] = from.gather.pixel(tile_column + column + i * kAcross);
      }
    }

    template <int kLda, int kLdb>
    __device__ __forceinline__ void load(int begin, float (*a)[kLda], float (*b)[kLdb]) const {
      load_weights(begin, a);
      const ConvPoint tap = from.gather.tap(begin + k);
#pragma unroll
      for (int i = 0; i < kColumnsEach; ++i) {
        int offset;
        const bool inside = from.gather.locate(tap, pixels[i], &offset);
        copy_float_async(&b[k][column + i * kAcross], base + offset, inside);
      }
    }

    template <int kLda>
    __device__ __forceinline__ void load_weights(int begin, float (*a)[kLda]) const {
      if (kRowQuads * kLoadDepth < Tile::kThreads && weight_k >= kLoadDepth) return;
      const int depth = begin + weight_k, m = row + weight_row;
      copy_float4_async(&a[weight_k][weight_row],
                        weights + static_cast<int64_t>(depth) * from.row_stride + m,
                        depth < from.depth() && m < from.row_stride);
    }
  };
};

// A[m, p] = dY[m, p], B[p, k] = X~[k, p].
struct PixelProducts {
  const float* dy;
  int dy_group_floats, dy_image_floats, plane, rows;
  ConvPatches patches;

  PixelProducts(const ConvShape& s, const float* x, const float* output_diff)
      : dy(output_diff),
        dy_group_floats(s.group_outputs() * s.pixels()),
        dy_image_floats(s.outputs * s.pixels()),
        plane(s.pixels()),
        rows(s.group_outputs()),
        patches(s, x) {}

  __device__ int depth() const { return patches.pixel_count; }

  template <class Tile>
  struct Loader {
    static constexpr int kDown = Tile::kThreads / kLoadDepth;  // threads one below the other
    static constexpr int kRowsEach = Tile::kRows / kDown, kTapsEach = Tile::kColumns / kDown;
    static_assert(Tile::kRows % kDown == 0 && Tile::kColumns % kDown == 0);

    const PixelProducts& from;
    const float *dy, *base;
    int row, k, line;
    ConvPoint taps[kTapsEach];

    __device__ Loader(const PixelProducts& operands, int group, int tile_row, int tile_column)
        : from(operands),
          dy(operands.dy + static_cast<int64_t>(group) * operands.dy_group_floats),
          base(operands.patches.base + static_cast<int64_t>(group) * operands.patches.group_floats),
          row(tile_row),
          k(static_cast<int>(threadIdx.x) % kLoadDepth),
          line(static_cast<int>(threadIdx.x) / kLoadDepth) {
#pragma unroll
      for (int i = 0; i < kTapsEach; ++i) {
        taps[i] = from.patches.tap(tile_column + line + i * kDown);
      }
    }

    template <int kLda, int kLdb>
    __device__ __forceinline__ void load(int begin, float (*a)[kLda], float (*b)[kLdb]) const {
      const int p = begin + k;
      const bool real = p < from.depth();
      const int image = real ? divide(p, from.patches.per_image).quotient : 0;
      const int place = p + image * (from.dy_image_floats - from.plane);
      const ConvPoint pixel = from.patches.pixel(p);
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        const int m = row + line + i * kDown;
        const bool row_inside = real && m < from.rows;
        copy_float_async(&a[k][line + i * kDown], dy + (row_inside ? place + m * from.plane : 0),
                         row_inside);
      }
#pragma unroll
      for (int i = 0; i < kTapsEach; ++i) {
        int offset;
        const bool inside = from.patches.locate(taps[i], pixel, &offset);
        copy_float_async(&b[k][line + i * kDown], base + offset, inside);
      }
    }
  };
};

// C: `rows` rows of `plane` neighbouring columns, in one matrix for each image.
struct ConvResult {
  float* data;      // of the first group and slice
  Ending ending;    // a bias for each row of all groups
  int rows, count;  // of one group: rows, and columns in all images
  int plane, image_floats, group_floats;
  int64_t slice_floats;
  bool vector;  // rows begin 16-byte aligned, and plane is a multiple of 4
  FastDivide per_image;

  ConvResult(float* to, const Ending& end, int row_count, int images, int columns,
             int floats_of_image)
      : data(to),
        ending(end),
        rows(row_count),
        count(images * columns),
        plane(columns),
        image_floats(floats_of_image),
        group_floats(row_count * columns),
        slice_floats(0),
        vector(columns % 4 == 0 && reinterpret_cast<uintptr_t>(to) % 16 == 0),
        per_image(columns) {}

  // This block's part.
  __device__ ConvResult at(int group, int64_t slice) const {
    ConvResult part = *this;
    part.data += static_cast<int64_t>(group) * group_floats + slice * slice_floats;
    if (ending.bias != nullptr) part.ending.bias += static_cast<int64_t>(group) * rows;
    return part;
  }

  // Four neighbouring columns, the first a multiple of 2 (store2) or 4 (store4).
  struct Columns {
    int offset[4];  // -1: none
  };
  __device__ Columns columns(int first) const {
    Columns result;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int p = first + j;
      if (vector && j > 0) {  // the whole quad lies in one image
        result.offset[j] = result.offset[0] < 0 ? -1 : result.offset[0] + j;
      } else {
        result.offset[j] =
            p < count ? p + divide(p, per_image).quotient * (image_floats - plane) : -1;
      }
    }
    return result;
  }
  __device__ void store4(int row, const Columns& to, const float* c) const {
    if (row >= rows) return;
    const float b = ending.bias_of(row);
    float* line = data + static_cast<int64_t>(row) * plane;
    if (vector) {
      if (to.offset[0] < 0) return;
      *reinterpret_cast<float4*>(line + to.offset[0]) =
          make_float4(ending.finish(c[0] + b), ending.finish(c[1] + b), ending.finish(c[2] + b),
                      ending.finish(c[3] + b));
      return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (to.offset[j] >= 0) line[to.offset[j]] = ending.finish(c[j] + b);
    }
  }
  __device__ void store2(int row, const Columns& to, const float* c) const {
    if (row >= rows) return;
    const float b = ending.bias_of(row);
    float* line = data + static_cast<int64_t>(row) * plane;
    if (vector) {
      if (to.offset[0] < 0) return;
      *reinterpret_cast<float2*>(line + to.offset[0]) =
          make_float2(ending.finish(c[0] + b), ending.finish(c[1] + b));
      return;
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (to.offset[j] >= 0) line[to.offset[j]] = ending.finish(c[j] + b);
    }
  }
};

}  // namespace kinet
