// See conv_depthwise.h.
#include "cuda/conv_depthwise.h"
#include "cuda/conv_sums.h"
#include "cuda/reduce.h"

namespace kinet {
namespace {

// What a thread needs to find its plane. Planes are (image, channel) or (image, output).
struct Planes {
  FastDivide per_plane, per_image;  // pixels of a plane, planes of an image
  int multiplier, taps, pixels, image;
};

Planes planes_of(const ConvShape& s, int plane_pixels, int image_planes) {
  return {FastDivide(plane_pixels),
          FastDivide(image_planes),
          s.group_outputs(),
          s.taps(),
          s.pixels(),
          s.image()};
}

// One thread for each output pixel. `patches` are those of a single plane.
__global__ void __launch_bounds__(kThreads)
    depthwise_forward_kernel(int64_t count, Planes planes, ConvPatches patches,
                             const float* weights, Ending ending, float* y) {
  KINET_GRID_STRIDE(at, count) {
    const auto [plane, p] = divide(static_cast<int>(at), planes.per_plane);  // n outputs + o
    const int o = divide(plane, planes.per_image).rest;
    // n channels + c, since outputs = channels * multiplier.
    const float* x = patches.base + static_cast<int64_t>(plane / planes.multiplier) * planes.image;
    const float* w = weights + static_cast<int64_t>(o) * planes.taps;
    const ConvPoint pixel = patches.pixel(p);
    float sum = ending.bias_of(o);
    for (int k = 0; k < planes.taps; ++k) {
      int offset;
      if (patches.locate(patches.tap(k), pixel, &offset)) sum += w[k] * x[offset];
    }
    y[at] = ending.finish(sum);
  }
}

// One thread for each input pixel: the outputs that read it, of all filters of its channel.
__global__ void __launch_bounds__(kThreads)
    depthwise_data_kernel(int64_t count, Planes planes, ConvOutputs outputs, const float* weights,
                          float* dx) {
  KINET_GRID_STRIDE(at, count) {
    const auto [plane, q] = divide(static_cast<int>(at), planes.per_plane);  // n channels + c
    const int c = divide(plane, planes.per_image).rest;
    const ConvPoint pixel = outputs.pixel(q);
    float sum = 0;
    for (int m = 0; m < planes.multiplier; ++m) {
      const float* dy =
          outputs.base + (static_cast<int64_t>(plane) * planes.multiplier + m) * planes.pixels;
      const float* w = weights + (static_cast<int64_t>(c) * planes.multiplier + m) * planes.taps;
      for (int k = 0; k < planes.taps; ++k) {
        int offset;
        if (outputs.locate(outputs.tap(k), pixel, &offset)) sum += w[k] * dy[offset];
      }
    }
    dx[at] = sum;
  }
}

// parts[slice][o, k] = sum over this slice's images n and all pixels p of dy[n, o, p] x[n, c, tap k
// of p]. Grid: x weights (o, k), y slices.
__global__ void __launch_bounds__(kThreads)
    depthwise_weights_kernel(int images, int slice_images, int outputs, Planes planes,
                             ConvPatches patches, const float* dy, float* parts) {
  const int begin = static_cast<int>(blockIdx.y) * slice_images;
  const int end = min(images - begin, slice_images) + begin;
  const int weights = outputs * planes.taps;
  for (int weight = static_cast<int>(blockIdx.x); weight < weights;
       weight += static_cast<int>(gridDim.x)) {
    const int o = weight / planes.taps;
    const ConvPoint tap = patches.tap(weight - o * planes.taps);
    float sum = 0;
    for (int at = begin * planes.pixels + static_cast<int>(threadIdx.x); at < end * planes.pixels;
         at += kThreads) {
      const auto [n, p] = divide(at, planes.per_plane);
      const int64_t plane = static_cast<int64_t>(n) * outputs + o;
      int offset;
      if (patches.locate(tap, patches.pixel(p), &offset)) {
        sum += dy[plane * planes.pixels + p] *
               patches.base[plane / planes.multiplier * planes.image + offset];
      }
    }
    sum = block_reduce<kThreads>(sum, Plus{});
    if (threadIdx.x == 0) parts[static_cast<int64_t>(blockIdx.y) * weights + weight] = sum;
  }
}

// One image of one channel and output.
ConvShape plane_shape(const ConvShape& s) {
  ConvShape plane = s;
  plane.images = plane.channels = plane.outputs = plane.groups = 1;
  return plane;
}

// Blocks enough for 8 on each multiprocessor, and at least 4096 pixels for each.
int64_t weight_slices(const ConvGeometry& g) {
  const int64_t wanted = divide_up(4 * kTargetBlocks, g.weights());
  const int64_t worth = std::max<int64_t>(g.images * g.window.outputs() / 4096, 1);
  return std::max<int64_t>(std::min({wanted, worth, g.images}), 1);
}

}  // namespace

size_t depthwise_workspace_floats(const ConvGeometry& g) {
  return static_cast<size_t>(weight_slices(g) * g.weights());
}

void cuda_depthwise_forward(const Gpu& gpu, const ConvGeometry& g, const float* x,
                            const float* weights, const Ending& ending, float* y) {
  for_each_launch(g, [&](const ConvGeometry& part, int64_t first) {
    const ConvShape s = ConvShape::of(part);
    const int64_t count = s.images * s.output();
    KINET_LAUNCH(depthwise_forward_kernel, blocks_for(count), kThreads, 0, gpu.stream, count,
                 planes_of(s, s.pixels(), s.outputs),
                 ConvPatches(plane_shape(s), x + first * g.input()), weights, ending,
                 y + first * g.output());
    KINET_CUDA_CHECK_LAUNCH();
  });
}

void cuda_depthwise_backward_data(const Gpu& gpu, const ConvGeometry& g, const float* dy,
                                  const float* weights, float* dx) {
  for_each_launch(g, [&](const ConvGeometry& part, int64_t first) {
    const ConvShape s = ConvShape::of(part);
    const int64_t count = s.images * s.input();
    KINET_LAUNCH(depthwise_data_kernel, blocks_for(count), kThreads, 0, gpu.stream, count,
                 planes_of(s, s.image(), s.channels),
                 ConvOutputs(plane_shape(s), dy + first * g.output()), weights,
                 dx + first * g.input());
    KINET_CUDA_CHECK_LAUNCH();
  });
}

void cuda_depthwise_backward_weights(const Gpu& gpu, const ConvGeometry& g, const float* x,
                                     const float* dy, float* dw, float* workspace) {
  for_each_launch(g, [&](const ConvGeometry& part, int64_t first) {
    const ConvShape s = ConvShape::of(part);
    const int64_t slice_images = divide_up(s.images, weight_slices(part));
    const int64_t slices = divide_up(s.images, slice_images);
    const dim3 grid(static_cast<unsigned>(std::min(g.weights(), kMostBlocks)),
                    static_cast<unsigned>(slices));
    KINET_LAUNCH(depthwise_weights_kernel, grid, kThreads, 0, gpu.stream, s.images,
                 static_cast<int>(slice_images), s.outputs, planes_of(s, s.pixels(), s.outputs),
                 ConvPatches(plane_shape(s), x + first * g.input()), dy + first * g.output(),
                 workspace);
    KINET_CUDA_CHECK_LAUNCH();
    add_slices(gpu, g.weights(), slices, workspace, dw);
  });
}

}  // namespace kinet
