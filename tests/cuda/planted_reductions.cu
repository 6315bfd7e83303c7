// Sums: of a warp and of a block in shared memory, over blocks, running sums, histograms.
#include <numeric>

#include "cuda/gpu.h"
#include "tests/cuda/device_vector.h"
#include "tests/cuda/planted.h"

namespace kinet {
namespace {

using emulation::Fault;

// --- a warp in shared memory, the old way

template <bool sync>
__global__ void warp_sum_kernel(const float* x, float* y) {
  __shared__ float parts[32];
  const int lane = threadIdx.x;
  parts[lane] = x[lane];
  if (sync) __syncwarp();
  for (int d = 16; d > 0; d /= 2) {
    const float sum = lane < d ? parts[lane] + parts[lane + d] : 0;
    if (sync) __syncwarp();
    if (lane < d) parts[lane] = sum;
    if (sync) __syncwarp();
  }
  if (lane == 0) *y = parts[0];
}

template <bool sync>
std::vector<float> warp_sum() {
  const DeviceVector<float> x(whole_numbers(32, 5)), y(1);
  KINET_LAUNCH(warp_sum_kernel<sync>, 1, 32, 0, nullptr, x, y);
  return y.values();
}

float sum_of(const std::vector<float>& x) { return std::accumulate(x.begin(), x.end(), 0.0f); }
std::vector<float> warp_sum_expected() { return {sum_of(whole_numbers(32, 5))}; }

// --- a block in shared memory (batch normalisation's sums), one step from another warp's part

enum BlockFault { kRight, kBarrierMissing, kShuffleAsFence };

template <BlockFault fault>
__global__ void block_sum_kernel(const float* x, float* y) {
  __shared__ float parts[128];
  const int t = threadIdx.x;
  parts[t] = x[t];
  __syncthreads();
  for (int d = 64; d > 0; d /= 2) {
    if (t < d) parts[t] += parts[t + d];
    if (fault == kRight || (fault == kShuffleAsFence && d > 32)) __syncthreads();
    // A shuffle does not order memory.
    if (fault == kShuffleAsFence && d <= 32) __shfl_sync(0xffffffffu, t, 0);
    if (fault == kBarrierMissing && d > 32) __syncthreads();
  }
  if (t == 0) *y = parts[0];
}

template <BlockFault fault>
std::vector<float> block_sum() {
  const DeviceVector<float> x(whole_numbers(128, 9)), y(1);
  KINET_LAUNCH(block_sum_kernel<fault>, 1, 128, 0, nullptr, x, y);
  return y.values();
}
std::vector<float> block_sum_expected() { return {sum_of(whole_numbers(128, 9))}; }

// --- the gradient of a bias: sums over rows, blocks of rows meet in the same place

template <bool atomic>
__global__ void bias_gradient_kernel(const float* dy, float* db, int rows, int columns) {
  const int column = threadIdx.x;
  if (column >= columns) return;
  float sum = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) sum += dy[row * columns + column];
  if (atomic) {
    atomicAdd(db + column, sum);
  } else {
    db[column] += sum;
  }
}

template <bool atomic>
std::vector<float> bias_gradient() {
  const DeviceVector<float> dy(whole_numbers(20 * 30, 9)), db(30);
  cudaMemset(db, 0, 30 * sizeof(float));
  KINET_LAUNCH(bias_gradient_kernel<atomic>, 4, 32, 0, nullptr, dy, db, 20, 30);
  return db.values();
}
std::vector<float> bias_gradient_expected() {
  const auto dy = whole_numbers(20 * 30, 9);
  std::vector<float> db(30);
  for (size_t i = 0; i < dy.size(); ++i) db[i % 30] += dy[i];
  return db;
}

// --- running sums (Hillis and Steele): the form in one buffer needs two barriers a step

template <bool both>
__global__ void scan_kernel(const float* x, float* y) {
  __shared__ float values[64];
  const int t = threadIdx.x;
  values[t] = x[t];
  __syncthreads();
  for (int d = 1; d < 64; d *= 2) {
    const float left = t >= d ? values[t - d] : 0;
    if (both) __syncthreads();
    values[t] += left;
    __syncthreads();
  }
  y[t] = values[t];
}

template <bool both>
std::vector<float> scan() {
  const DeviceVector<float> x(whole_numbers(64, 9)), y(64);
  KINET_LAUNCH(scan_kernel<both>, 1, 64, 0, nullptr, x, y);
  return y.values();
}
std::vector<float> scan_expected() {
  auto y = whole_numbers(64, 9);
  std::partial_sum(y.begin(), y.end(), y.begin());
  return y;
}

// --- a histogram in shared memory

enum HistogramFault { kRightHistogram, kPlainAdd, kNotCleared, kMergedPlainly };

template <HistogramFault fault>
__global__ void histogram_kernel(const float* x, float* counts, int n) {
  __shared__ int bins[8];
  const int t = threadIdx.x;
  if (fault != kNotCleared && t < 8) bins[t] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) {
    int* bin = bins + static_cast<int>(x[i]);
    if (fault == kPlainAdd) {
      ++*bin;
    } else {
      atomicAdd(bin, 1);
    }
  }
  __syncthreads();
  if (t >= 8) return;
  if (fault == kMergedPlainly) {
    counts[t] += static_cast<float>(bins[t]);
  } else {
    atomicAdd(counts + t, static_cast<float>(bins[t]));
  }
}

template <HistogramFault fault>
std::vector<float> histogram() {
  const DeviceVector<float> x(whole_numbers(300, 8)), counts(8);
  cudaMemset(counts, 0, 8 * sizeof(float));
  KINET_LAUNCH(histogram_kernel<fault>, 2, 64, 0, nullptr, x, counts, 300);
  return counts.values();
}
std::vector<float> histogram_expected() {
  std::vector<float> counts(8);
  for (float value : whole_numbers(300, 8)) ++counts[static_cast<size_t>(value)];
  return counts;
}

// --- runs that compilers like to turn into calls of memset and memcpy, which the checker must see
// too

constexpr int kRun = 16;

template <bool too_far>
__global__ void run_kernel(const float* x, float* y) {
  KINET_DYN_SHARED(float, tile);
  const int t = threadIdx.x;
  for (int i = 0; i < kRun + (too_far ? 1 : 0); ++i) tile[t * kRun + i] = 0;
  __syncthreads();
  for (int i = 0; i < kRun; ++i) tile[t * kRun + i] += x[t * kRun + i];
  __syncthreads();
  const int other = static_cast<int>(blockDim.x) - 1 - t;
  for (int i = 0; i < kRun; ++i) y[t * kRun + i] = tile[other * kRun + i];
}

template <bool too_far>
std::vector<float> runs() {
  const DeviceVector<float> x(whole_numbers(8 * kRun, 9)), y(8 * kRun);
  KINET_LAUNCH(run_kernel<too_far>, 1, 8, 8 * kRun * sizeof(float), nullptr, x, y);
  return y.values();
}
std::vector<float> runs_expected() {
  const auto x = whole_numbers(8 * kRun, 9);
  std::vector<float> y(x.size());
  for (int t = 0; t < 8; ++t) {
    for (int i = 0; i < kRun; ++i) y[t * kRun + i] = x[(7 - t) * kRun + i];
  }
  return y;
}

}  // namespace

std::vector<PlantedCase> planted_reductions() {
  return {
      {"warp sum", warp_sum<true>, warp_sum_expected, {}},
      {"warp sum: __syncwarp missing",
       warp_sum<false>,
       warp_sum_expected,
       {Fault::kRace, Fault::kUninitialised}},
      {"block sum", block_sum<kRight>, block_sum_expected, {}},
      {"block sum: barriers of the last warp missing",
       block_sum<kBarrierMissing>,
       block_sum_expected,
       {Fault::kRace}},
      {"block sum: a shuffle for a barrier",
       block_sum<kShuffleAsFence>,
       block_sum_expected,
       {Fault::kRace}},
      {"bias gradient", bias_gradient<true>, bias_gradient_expected, {}},
      {"bias gradient: += for atomicAdd",
       bias_gradient<false>,
       bias_gradient_expected,
       {Fault::kRace}},
      {"running sums", scan<true>, scan_expected, {}},
      {"running sums: one barrier a step", scan<false>, scan_expected, {Fault::kRace}},
      {"runs", runs<false>, runs_expected, {}},
      {"runs: one element too far", runs<true>, nullptr, {Fault::kOutOfBounds, Fault::kRace}},
      {"histogram", histogram<kRightHistogram>, histogram_expected, {}},
      {"histogram: plain addition", histogram<kPlainAdd>, histogram_expected, {Fault::kRace}},
      {"histogram: not cleared", histogram<kNotCleared>, nullptr, {Fault::kUninitialised}},
      {"histogram: blocks merged without atomics",
       histogram<kMergedPlainly>,
       histogram_expected,
       {Fault::kRace}},
  };
}

}  // namespace kinet
