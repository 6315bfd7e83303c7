// See conv_columns.h.
#include "cuda/conv_columns.h"
#include "cuda/conv_sums.h"
#include "cuda/gemm.h"

namespace kinet {
namespace {

// Floats of columns, and of weight gradients, that are kept at a time where one image needs less:
// 64 MiB of each.
constexpr int64_t kBlockFloats = int64_t{1} << 24;

// columns[n, (c, r, s), p] = X~[(c, r, s), p] for all groups. A thread has one channel and one
// pixel of all taps: neighbouring threads write neighbouring pixels.
__global__ void __launch_bounds__(kThreads)
    im2col_kernel(int64_t threads, ConvPatches patches, FastDivide per_channel, int pixels,
                  int taps, float* columns) {
  KINET_GRID_STRIDE(at, threads) {
    const auto [plane, p] = divide(static_cast<int>(at), per_channel);  // plane = n channels + c
    const ConvPoint pixel = patches.pixel(p);
    const float* from = patches.base + static_cast<int64_t>(plane) * patches.height * patches.width;
    float* to = columns + static_cast<int64_t>(plane) * taps * pixels + p;
    for (int k = 0; k < taps; ++k) {
      int offset;
      const bool inside = patches.locate(patches.tap(k), pixel, &offset);
      to[static_cast<int64_t>(k) * pixels] = inside ? from[offset] : 0.f;
    }
  }
}

// dx[n, c, h, w] = sum over (r, s) of columns[n, (c, r, s), (i, j)]: every output pixel that read
// this one. A thread gathers its own sum, so there are no atomics and the order is fixed.
__global__ void __launch_bounds__(kThreads)
    col2im_kernel(int64_t threads, ConvOutputs outputs, FastDivide per_channel, int pixels,
                  int taps, const float* columns, float* dx) {
  KINET_GRID_STRIDE(at, threads) {
    const auto [plane, q] = divide(static_cast<int>(at), per_channel);
    const ConvPoint pixel = outputs.pixel(q);
    const float* from = columns + static_cast<int64_t>(plane) * taps * pixels;
    float sum = 0;
    for (int k = 0; k < taps; ++k) {
      ConvPoint tap = outputs.tap(k);
      tap.offset = k * pixels;
      int offset;
      if (outputs.locate(tap, pixel, &offset)) sum += from[offset];
    }
    dx[at] = sum;
  }
}

// Patches of single planes: one image of one channel.
ConvShape plane_shape(const ConvShape& s) {
  ConvShape plane = s;
  plane.images = plane.channels = plane.outputs = plane.groups = 1;
  return plane;
}

struct Columns {
  int64_t floats;  // of one image
  int64_t images;  // at a time

  explicit Columns(const ConvGeometry& g)
      : floats(g.channels * g.window.taps() * g.window.outputs()) {
    const int64_t whole = std::max<int64_t>({floats, g.input(), g.output(), g.weights(), 1});
    images = std::clamp<int64_t>(kBlockFloats / whole, 1, std::max<int64_t>(g.images, 1));
  }
};

void im2col(const Gpu& gpu, const ConvShape& s, const float* x, float* columns) {
  const int64_t threads = int64_t{s.images} * s.channels * s.pixels();
  KINET_LAUNCH(im2col_kernel, blocks_for(threads), kThreads, 0, gpu.stream, threads,
               ConvPatches(plane_shape(s), x), FastDivide(s.pixels()), s.pixels(), s.taps(),
               columns);
  KINET_CUDA_CHECK_LAUNCH();
}

void col2im(const Gpu& gpu, const ConvShape& s, const float* columns, float* dx) {
  const int64_t threads = int64_t{s.images} * s.input();
  KINET_LAUNCH(col2im_kernel, blocks_for(threads), kThreads, 0, gpu.stream, threads,
               ConvOutputs(plane_shape(s), nullptr), FastDivide(s.image()), s.pixels(), s.taps(),
               columns, dx);
  KINET_CUDA_CHECK_LAUNCH();
}

// Calls body(shape of some images, first image).
template <class Body>
void for_each_block(const ConvGeometry& g, const Body& body) {
  const int64_t images = Columns(g).images;
  for (int64_t first = 0; first < g.images; first += images) {
    ConvGeometry block = g;
    block.images = std::min(images, g.images - first);
    body(ConvShape::of(block), first);
  }
}

// Operands as one matrix for each image and group.
struct Parts {
  int64_t image, group;  // floats from one image, and from one group, to the next
};

// Products for all images and groups: a batch over images for each group, or over groups for each
// image, whichever is longer. body(image, group, count, along) multiplies `count` matrices from
// there on, whose distance is Parts::image or Parts::group.
template <class Body>
void for_each_batch(const ConvShape& s, const Body& body) {
  if (s.images >= s.groups) {
    for (int group = 0; group < s.groups; ++group) body(0, group, s.images, &Parts::image);
  } else {
    for (int image = 0; image < s.images; ++image) body(image, 0, s.groups, &Parts::group);
  }
}

}  // namespace

size_t columns_workspace_floats(const ConvGeometry& g) {
  const Columns columns(g);
  const int64_t stored =
      g.images > 0 && ConvShape::of(g).direct() ? 0 : columns.images * columns.floats;
  return static_cast<size_t>(stored + columns.images * g.weights());
}

// Y = W X~ + b, through ReLU where asked for.
void columns_forward(const Gpu& gpu, const ConvGeometry& g, const float* x, const float* weights,
                     const Ending& ending, float* y, float* workspace) {
  for_each_block(g, [&](const ConvShape& s, int64_t first) {
    const float* from = x + first * g.input();
    float* to = y + first * g.output();
    if (!s.direct()) im2col(gpu, s, from, workspace);
    const float* columns = s.direct() ? from : workspace;
    const int64_t m = s.group_outputs(), n = s.pixels(), k = g.depth();
    const Parts w{0, m * k}, c{g.groups * k * n, k * n}, r{g.output(), m * n};
    for_each_batch(s, [&](int image, int group, int count, int64_t Parts::*along) {
      gemm(gpu, m, n, k, {weights + group * w.group, false, w.*along},
           {columns + image * c.image + group * c.group, false, c.*along},
           {to + image * r.image + group * r.group, 0, r.*along}, count);
    });
    end_planes(gpu, s.images, s.outputs, s.pixels(), ending, to);
  });
}

// dX~ = W' dY, dX = col2im(dX~).
void columns_backward_data(const Gpu& gpu, const ConvGeometry& g, const float* dy,
                           const float* weights, float* dx, float* workspace) {
  for_each_block(g, [&](const ConvShape& s, int64_t first) {
    const float* from = dy + first * g.output();
    float* to = dx + first * g.input();
    float* columns = s.direct() ? to : workspace;
    const int64_t m = g.depth(), n = s.pixels(), k = s.group_outputs();
    const Parts w{0, m * k}, d{g.output(), k * n}, c{g.groups * m * n, m * n};
    for_each_batch(s, [&](int image, int group, int count, int64_t Parts::*along) {
      gemm(gpu, m, n, k, {weights + group * w.group, true, w.*along},
           {from + image * d.image + group * d.group, false, d.*along},
           {columns + image * c.image + group * c.group, 0, c.*along}, count);
    });
    if (!s.direct()) col2im(gpu, s, columns, to);
  });
}

// dW += sum over images of dY X~'. Workspace: columns, then one dW for each image.
void columns_backward_weights(const Gpu& gpu, const ConvGeometry& g, const float* x,
                              const float* dy, float* dw, float* workspace) {
  for_each_block(g, [&](const ConvShape& s, int64_t first) {
    const float* from = x + first * g.input();
    const float* diff = dy + first * g.output();
    if (!s.direct()) im2col(gpu, s, from, workspace);
    const float* columns = s.direct() ? from : workspace;
    const Columns block(g);
    float* parts = workspace + (s.direct() ? 0 : block.images * block.floats);
    const int64_t m = s.group_outputs(), n = g.depth(), k = s.pixels();
    const Parts d{g.output(), m * k}, c{g.groups * n * k, n * k}, w{g.weights(), m * n};
    for_each_batch(s, [&](int image, int group, int count, int64_t Parts::*along) {
      gemm(gpu, m, n, k, {diff + image * d.image + group * d.group, false, d.*along},
           {columns + image * c.image + group * c.group, true, c.*along},
           {parts + image * w.image + group * w.group, 0, w.*along}, count);
    });
    add_slices(gpu, g.weights(), s.images, parts, dw);
  });
}

}  // namespace kinet
