#include "cuda/gpu.h"
#include "tests/cuda/access_patterns.h"
#include "tests/cuda/device_vector.h"

namespace kinet {
namespace {

using Floats = DeviceVector<float>;

__global__ void stride_kernel(int stride, int offset, const float* x, float* y) {
  const int at = static_cast<int>(threadIdx.x) * stride + offset;
  const float value = x[at];
  y[at] = value;
}

__global__ void fours_kernel(const float* x, float* y) {
  const float4 four = reinterpret_cast<const float4*>(x)[threadIdx.x];
  reinterpret_cast<float4*>(y)[threadIdx.x] =
      make_float4(four.x + 1, four.y + 1, four.z + 1, four.w + 1);
}

__global__ void half_kernel(const float* x, float* y) {
  const float value = *x;
  if (threadIdx.x % 2 == 0) y[threadIdx.x] = value;
}

template <int kRow>
__global__ void tile_kernel(float* y) {
  __shared__ float tile[32][kRow];
  const unsigned t = threadIdx.x;
  for (int row = 0; row < 32; ++row) {
    tile[row][t] = 1;
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 3; ++i) {
    sum += tile[t][i];
    sum += tile[i][t];
  }
  y[t] = sum;
}

__global__ void shared_fours_kernel(float* y) {
  __shared__ __align__(16) float values[128];
  for (int i = 0; i < 4; ++i) values[threadIdx.x + 32 * i] = 1;
  __syncthreads();
  const float4 four = reinterpret_cast<const float4*>(values)[threadIdx.x];
  y[threadIdx.x] = four.x + four.y + four.z + four.w;
}

}  // namespace

void copy_with_stride(int threads, int stride, int offset) {
  const Floats x(static_cast<size_t>(threads * stride + offset)), y(threads * stride + offset);
  KINET_LAUNCH(stride_kernel, 1, threads, 0, nullptr, stride, offset, x.data(), y.data());
}

void copy_fours(int threads) {
  const Floats x(4 * threads), y(4 * threads);
  KINET_LAUNCH(fours_kernel, 1, threads, 0, nullptr, x.data(), y.data());
}

void read_one_write_half() {
  const Floats x(1), y(32);
  KINET_LAUNCH(half_kernel, 1, 32, 0, nullptr, x.data(), y.data());
}

void read_tile(bool padded) {
  const Floats y(32);
  if (padded) KINET_LAUNCH((tile_kernel<33>), 1, 32, 0, nullptr, y.data());
  if (!padded) KINET_LAUNCH((tile_kernel<32>), 1, 32, 0, nullptr, y.data());
}

void read_shared_fours() {
  const Floats y(32);
  KINET_LAUNCH(shared_fours_kernel, 1, 32, 0, nullptr, y.data());
}

}  // namespace kinet
