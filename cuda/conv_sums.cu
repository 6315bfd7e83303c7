// See conv_sums.h.
#include "cuda/conv_sums.h"
#include "cuda/reduce.h"

namespace kinet {
namespace {

__global__ void __launch_bounds__(kThreads)
    add_slices_kernel(int64_t n, int64_t slices, const float* parts, float* sum) {
  KINET_GRID_STRIDE(i, n) {
    float total = 0;
    for (int64_t slice = 0; slice < slices; ++slice) total += parts[slice * n + i];
    sum[i] += total;
  }
}

// One warp-wide row of blocks for each plane (n, o).
__global__ void __launch_bounds__(kThreads)
    end_planes_kernel(int64_t planes, int outputs, int64_t pixels, Ending ending, float* y) {
  for (int64_t plane = blockIdx.y; plane < planes; plane += gridDim.y) {
    float* to = y + plane * pixels;
    if (ending.bias == nullptr) {
      KINET_GRID_STRIDE(i, pixels) { to[i] = ending.finish(to[i]); }
    } else {
      const float b = ending.bias[plane % outputs];
      KINET_GRID_STRIDE(i, pixels) { to[i] = ending.finish(to[i] + b); }
    }
  }
}

// parts[slice][o] = sum over this slice's images and all pixels of dy[n, o, :]. Grid: x outputs,
// y slices; the threads of a block walk over (image, pixel) together.
__global__ void __launch_bounds__(kThreads)
    bias_gradient_kernel(int64_t images, int64_t slice_images, int64_t outputs, int64_t pixels,
                         const float* dy, float* parts) {
  const int64_t begin = blockIdx.y * slice_images;
  const int64_t left = images - begin, count = left < slice_images ? left : slice_images;
  for (int64_t o = blockIdx.x; o < outputs; o += gridDim.x) {
    float sum = 0;
    // (n, i) of element `threadIdx.x`, then of every kThreads-th one after it.
    int64_t n = threadIdx.x / pixels, i = threadIdx.x % pixels;
    const int64_t step_n = kThreads / pixels, step_i = kThreads % pixels;
    while (n < count) {
      sum += dy[((begin + n) * outputs + o) * pixels + i];
      n += step_n, i += step_i;
      if (i >= pixels) i -= pixels, ++n;
    }
    sum = block_reduce<kThreads>(sum, Plus{});
    if (threadIdx.x == 0) parts[blockIdx.y * outputs + o] = sum;
  }
}

// At least 4096 values a block, so that a block has work; images are not divided.
int64_t bias_slices(int64_t images, int64_t outputs, int64_t pixels) {
  const int64_t wanted = divide_up(kTargetBlocks, std::max<int64_t>(outputs, 1));
  const int64_t worth = std::max<int64_t>(images * pixels / 4096, 1);
  return std::max<int64_t>(std::min({wanted, worth, images}), 1);
}

}  // namespace

void add_slices(const Gpu& gpu, int64_t n, int64_t slices, const float* parts, float* sum) {
  KINET_LAUNCH(add_slices_kernel, blocks_for(n), kThreads, 0, gpu.stream, n, slices, parts, sum);
  KINET_CUDA_CHECK_LAUNCH();
}

void end_planes(const Gpu& gpu, int64_t images, int64_t outputs, int64_t pixels,
                const Ending& ending, float* y) {
  const int64_t planes = images * outputs;
  if (planes == 0 || pixels == 0 || ending.nothing()) return;
  const dim3 grid(static_cast<unsigned>(std::min<int64_t>(divide_up(pixels, kThreads), 1024)),
                  static_cast<unsigned>(std::min(planes, kMostBlocks)));
  KINET_LAUNCH(end_planes_kernel, grid, kThreads, 0, gpu.stream, planes, static_cast<int>(outputs),
               pixels, ending, y);
  KINET_CUDA_CHECK_LAUNCH();
}

size_t bias_workspace_floats(int64_t images, int64_t outputs, int64_t pixels) {
  return static_cast<size_t>(bias_slices(images, outputs, pixels) * outputs);
}

void backward_bias(const Gpu& gpu, int64_t images, int64_t outputs, int64_t pixels, const float* dy,
                   float* db, float* workspace) {
  if (images * outputs * pixels == 0) return;
  const int64_t slice_images = divide_up(images, bias_slices(images, outputs, pixels));
  const int64_t slices = divide_up(images, slice_images);
  const dim3 grid(static_cast<unsigned>(std::min(outputs, kMostBlocks)),
                  static_cast<unsigned>(slices));
  KINET_LAUNCH(bias_gradient_kernel, grid, kThreads, 0, gpu.stream, images, slice_images, outputs,
               pixels, dy, workspace);
  KINET_CUDA_CHECK_LAUNCH();
  add_slices(gpu, outputs, slices, workspace, db);
}

}  // namespace kinet
