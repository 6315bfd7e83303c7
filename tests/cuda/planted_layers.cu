// Pooling, softmax, im2col, depthwise convolution and dropout.
#include <algorithm>
#include <cmath>

#include "cuda/gpu.h"
#include "tests/cuda/device_vector.h"
#include "tests/cuda/planted.h"

namespace kinet {
namespace {

using emulation::Fault;

// --- max pooling, 3x3 with stride 2 on a 9x9 map: windows overlap

constexpr int kIn = 9, kOut = 4, kMaps = 6;

template <bool over>
__global__ void max_pool_kernel(const float* x, float* y, int* where) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (over ? i <= kMaps * kOut * kOut : i < kMaps * kOut * kOut) {
    const int map = i / (kOut * kOut), row = i / kOut % kOut * 2, column = i % kOut * 2;
    float best = -1e30f;
    int best_at = 0;
    for (int r = row; r < row + 3; ++r) {
      for (int c = column; c < column + 3; ++c) {
        const int at = (map * kIn + r) * kIn + c;
        if (x[at] > best) {
          best = x[at];
          best_at = at;
        }
      }
    }
    y[i] = best;
    where[i] = best_at;
  }
}

std::vector<float> pool_input() { return whole_numbers(kMaps * kIn * kIn, 101); }

template <bool over>
std::vector<float> max_pool() {
  const DeviceVector<float> x(pool_input()), y(kMaps * kOut * kOut);
  const DeviceVector<int> where(kMaps * kOut * kOut);
  KINET_LAUNCH(max_pool_kernel<over>, 4, 32, 0, nullptr, x, y, where);
  return y.values();
}

int place_of_maximum(const std::vector<float>& x, int i) {
  const int map = i / (kOut * kOut), row = i / kOut % kOut * 2, column = i % kOut * 2;
  int best = (map * kIn + row) * kIn + column;
  for (int r = row; r < row + 3; ++r) {
    for (int c = column; c < column + 3; ++c) {
      const int at = (map * kIn + r) * kIn + c;
      if (x[at] > x[best]) best = at;
    }
  }
  return best;
}

std::vector<float> maxima() {
  const auto x = pool_input();
  std::vector<float> y(kMaps * kOut * kOut);
  for (size_t i = 0; i < y.size(); ++i) y[i] = x[place_of_maximum(x, static_cast<int>(i))];
  return y;
}

template <bool atomic>
__global__ void max_pool_backward_kernel(const float* dy, const int* where, float* dx, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (atomic) {
    atomicAdd(dx + where[i], dy[i]);
  } else {
    dx[where[i]] += dy[i];
  }
}

template <bool atomic>
std::vector<float> max_pool_backward() {
  const auto x = pool_input();
  std::vector<int> places(kMaps * kOut * kOut);
  for (size_t i = 0; i < places.size(); ++i) places[i] = place_of_maximum(x, static_cast<int>(i));
  const DeviceVector<float> dy(whole_numbers(places.size(), 5)), dx(x.size());
  const DeviceVector<int> where(places);
  cudaMemset(dx, 0, x.size() * sizeof(float));
  KINET_LAUNCH(max_pool_backward_kernel<atomic>, 3, 32, 0, nullptr, dy, where, dx,
               static_cast<int>(places.size()));
  return dx.values();
}

std::vector<float> pooled_gradient() {
  const auto x = pool_input();
  const auto dy = whole_numbers(kMaps * kOut * kOut, 5);
  std::vector<float> dx(x.size());
  for (size_t i = 0; i < dy.size(); ++i) dx[place_of_maximum(x, static_cast<int>(i))] += dy[i];
  return dx;
}

// --- softmax of rows, one block for each: warps by shuffles, then one value of each warp

enum SoftmaxFault {
  kRight,
  kHalfMask,
  kNoBarrierBeforeReuse,
  kBarrierOfSome,
  kBarrierOfWarp0,
  kSharedTooSmall,
};

constexpr int kRows = 3, kColumns = 50, kThreads = 64;

template <SoftmaxFault fault, class Join>
__device__ float block_reduce(float value, float* parts, int columns, Join join) {
  const unsigned mask = fault == kHalfMask ? 0x0000ffffu : 0xffffffffu;
  for (int d = 16; d > 0; d /= 2) value = join(value, __shfl_xor_sync(mask, value, d));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  if (fault == kBarrierOfSome) {
    if (static_cast<int>(threadIdx.x) < columns) __syncthreads();
  } else if (fault == kBarrierOfWarp0) {
    if (threadIdx.x < 32) __syncthreads();
  } else {
    __syncthreads();
  }
  value = parts[0];
  for (unsigned i = 1; i < blockDim.x / 32; ++i) value = join(value, parts[i]);
  return value;
}

template <SoftmaxFault fault>
__global__ void softmax_kernel(const float* x, float* y, int columns) {
  KINET_DYN_SHARED(float, parts);
  const float* row = x + blockIdx.x * columns;
  float largest = -1e30f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) largest = max(largest, row[c]);
  largest =
      block_reduce<fault>(largest, parts, columns, [](float a, float b) { return max(a, b); });
  if (fault != kNoBarrierBeforeReuse) __syncthreads();
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(row[c] - largest);
  sum = block_reduce<fault>(sum, parts, columns, [](float a, float b) { return a + b; });
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    y[blockIdx.x * columns + c] = expf(row[c] - largest) / sum;
  }
}

template <SoftmaxFault fault>
std::vector<float> softmax() {
  const DeviceVector<float> x(whole_numbers(kRows * kColumns, 9)), y(kRows * kColumns);
  const size_t parts = fault == kSharedTooSmall ? 1 : kThreads / 32;
  KINET_LAUNCH(softmax_kernel<fault>, kRows, kThreads, parts * sizeof(float), nullptr, x, y,
               kColumns);
  return y.values();
}

std::vector<float> softmax_of_rows() {
  auto y = whole_numbers(kRows * kColumns, 9);
  for (int r = 0; r < kRows; ++r) {
    float* row = y.data() + r * kColumns;
    const float largest = *std::max_element(row, row + kColumns);
    float sum = 0;
    for (int c = 0; c < kColumns; ++c) sum += row[c] = std::exp(row[c] - largest);
    for (int c = 0; c < kColumns; ++c) row[c] /= sum;
  }
  return y;
}

// --- col2im in one dimension, kernel 3: a gather is right, a scatter must be atomic

constexpr int kSteps = 60, kTaps = 3;

template <bool gather>
__global__ void col2im_kernel(const float* columns, float* image) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (gather) {
    if (i >= kSteps + kTaps - 1) return;
    float sum = 0;
    for (int tap = 0; tap < kTaps; ++tap) {
      if (i - tap >= 0 && i - tap < kSteps) sum += columns[tap * kSteps + i - tap];
    }
    image[i] = sum;
  } else {
    if (i >= kSteps) return;
    for (int tap = 0; tap < kTaps; ++tap) image[i + tap] += columns[tap * kSteps + i];
  }
}

template <bool gather>
std::vector<float> col2im() {
  const DeviceVector<float> columns(whole_numbers(kTaps * kSteps, 7)), image(kSteps + kTaps - 1);
  cudaMemset(image, 0, (kSteps + kTaps - 1) * sizeof(float));
  KINET_LAUNCH(col2im_kernel<gather>, 3, 32, 0, nullptr, columns, image);
  return image.values();
}

std::vector<float> image_of_columns() {
  const auto columns = whole_numbers(kTaps * kSteps, 7);
  std::vector<float> image(kSteps + kTaps - 1);
  for (int tap = 0; tap < kTaps; ++tap) {
    for (int i = 0; i < kSteps; ++i) image[i + tap] += columns[tap * kSteps + i];
  }
  return image;
}

// --- dropout with a mask of bytes: neighbours write bytes of one word, which is no race

template <bool shared_byte>
__global__ void dropout_kernel(const float* x, float* y, unsigned char* mask, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  mask[shared_byte ? i / 2 : i] = static_cast<unsigned char>(i % 3 != 0);
  y[i] = mask[shared_byte ? i / 2 : i] != 0 ? x[i] : 0;
}

template <bool shared_byte>
std::vector<float> dropout() {
  const DeviceVector<float> x(whole_numbers(90, 7)), y(90);
  const DeviceVector<unsigned char> mask(90);
  KINET_LAUNCH(dropout_kernel<shared_byte>, 2, 64, 0, nullptr, x, y, mask, 90);
  return y.values();
}

std::vector<float> dropped() {
  auto y = whole_numbers(90, 7);
  for (size_t i = 0; i < y.size(); i += 3) y[i] = 0;
  return y;
}

}  // namespace

std::vector<PlantedCase> planted_layers() {
  return {
      {"max pooling", max_pool<false>, maxima, {}},
      {"max pooling: <= for <", max_pool<true>, maxima, {Fault::kOutOfBounds}},
      {"max pooling backward", max_pool_backward<true>, pooled_gradient, {}},
      {"max pooling backward: += for atomicAdd",
       max_pool_backward<false>,
       pooled_gradient,
       {Fault::kRace}},
      {"softmax", softmax<kRight>, softmax_of_rows, {}},
      {"softmax: mask of half a warp",
       softmax<kHalfMask>,
       softmax_of_rows,
       {Fault::kLaneOutsideMask}},
      {"softmax: barrier before reuse missing",
       softmax<kNoBarrierBeforeReuse>,
       softmax_of_rows,
       {Fault::kRace}},
      {"softmax: barrier of some threads",
       softmax<kBarrierOfSome>,
       softmax_of_rows,
       {Fault::kRace, Fault::kDivergentBarrier, Fault::kDeadlock}},
      {"softmax: barrier of warp 0",
       softmax<kBarrierOfWarp0>,
       softmax_of_rows,
       {Fault::kRace, Fault::kDivergentBarrier, Fault::kDeadlock}},
      {"softmax: shared memory too small",
       softmax<kSharedTooSmall>,
       softmax_of_rows,
       {Fault::kOutOfBounds}},
      {"col2im", col2im<true>, image_of_columns, {}},
      {"col2im: scatter", col2im<false>, image_of_columns, {Fault::kRace}},
      {"dropout", dropout<false>, dropped, {}},
      {"dropout: two elements share a byte", dropout<true>, nullptr, {Fault::kRace}},
  };
}

}  // namespace kinet
