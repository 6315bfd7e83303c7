// C = A B, row-major: a 16x16 tile in shared memory, and a register-blocked form with 128-bit
// loads.
#include "cuda/gpu.h"
#include "tests/cuda/device_vector.h"
#include "tests/cuda/planted.h"

namespace kinet {
namespace {

using emulation::Fault;

enum GemmFault {
  kRight,
  kNoFirstBarrier,
  kNoSecondBarrier,
  kNoBoundOfK,
  kTailNotFilled,
  kBarrierInBranch,
};

constexpr int kTile = 16;
constexpr int kM = 50, kN = 45, kK = 45;  // no multiples of the tile

template <GemmFault fault>
__global__ void sgemm_kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
  float sum = 0;
  for (int t = 0; t < k; t += kTile) {
    const bool in_a = row < m && (fault == kNoBoundOfK || t + x < k);
    const bool in_b = column < n && (fault == kNoBoundOfK || t + y < k);
    if (fault != kTailNotFilled || in_a) tile_a[y][x] = in_a ? a[row * k + t + x] : 0;
    if (fault != kTailNotFilled || in_b) tile_b[y][x] = in_b ? b[(t + y) * n + column] : 0;
    if (fault == kBarrierInBranch) {
      if (y < 8) {
        __syncthreads();
      } else {
        __syncthreads();  // the same barrier on the device only by luck
      }
    } else if (fault != kNoFirstBarrier) {
      __syncthreads();
    }
    for (int i = 0; i < kTile; ++i) sum += tile_a[y][i] * tile_b[i][x];
    if (fault != kNoSecondBarrier) __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

std::vector<float> product(int m, int n, int k) {
  const auto a = whole_numbers(static_cast<size_t>(m * k), 11);
  const auto b = whole_numbers(static_cast<size_t>(k * n), 13);
  std::vector<float> c(static_cast<size_t>(m * n));
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      for (int l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return c;
}

template <GemmFault fault>
std::vector<float> sgemm() {
  const DeviceVector<float> a(whole_numbers(kM * kK, 11)), b(whole_numbers(kK * kN, 13));
  const DeviceVector<float> c(kM * kN);
  const dim3 grid((kN + kTile - 1) / kTile, (kM + kTile - 1) / kTile);
  KINET_LAUNCH(sgemm_kernel<fault>, grid, dim3(kTile, kTile), 0, nullptr, a, b, c, kM, kN, kK);
  return c.values();
}

std::vector<float> sgemm_product() { return product(kM, kN, kK); }

// 64x64 of C for a block of 256 threads, 4x4 for a thread, k in steps of 16.
constexpr int kBlockTile = 64, kStep = 16;

template <bool barrier>
__global__ void sgemm_blocked_kernel(const float* a, const float* b, float* c, int n, int k) {
  __shared__ __align__(16) float tile_a[kStep][kBlockTile];  // transposed
  __shared__ __align__(16) float tile_b[kStep][kBlockTile];
  const int tid = threadIdx.x;
  const int tx = tid % 16, ty = tid / 16;
  const float* a_block = a + blockIdx.y * kBlockTile * k;
  const float* b_block = b + blockIdx.x * kBlockTile;
  float sum[4][4] = {};
  for (int t = 0; t < k; t += kStep) {
    const int a_row = tid / 4, a_column = tid % 4 * 4;
    const float4 va = *reinterpret_cast<const float4*>(a_block + a_row * k + t + a_column);
    tile_a[a_column][a_row] = va.x;
    tile_a[a_column + 1][a_row] = va.y;
    tile_a[a_column + 2][a_row] = va.z;
    tile_a[a_column + 3][a_row] = va.w;
    *reinterpret_cast<float4*>(&tile_b[ty][tx * 4]) =
        *reinterpret_cast<const float4*>(b_block + (t + ty) * n + tx * 4);
    if (barrier) __syncthreads();
    for (int i = 0; i < kStep; ++i) {
      const float4 fa = *reinterpret_cast<const float4*>(&tile_a[i][ty * 4]);
      const float4 fb = *reinterpret_cast<const float4*>(&tile_b[i][tx * 4]);
      const float ra[4] = {fa.x, fa.y, fa.z, fa.w}, rb[4] = {fb.x, fb.y, fb.z, fb.w};
      for (int r = 0; r < 4; ++r) {
        for (int s = 0; s < 4; ++s) sum[r][s] += ra[r] * rb[s];
      }
    }
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r) {
    float* out = c + (blockIdx.y * kBlockTile + ty * 4 + r) * n + blockIdx.x * kBlockTile + tx * 4;
    *reinterpret_cast<float4*>(out) = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
  }
}

template <bool barrier, int shift>
std::vector<float> sgemm_blocked() {
  const DeviceVector<float> a(whole_numbers(64 * 48, 11)), b(whole_numbers(48 * 128 + shift, 13));
  const DeviceVector<float> c(64 * 128);
  KINET_LAUNCH(sgemm_blocked_kernel<barrier>, dim3(2, 1), 256, 0, nullptr, a, b + shift, c, 128,
               48);
  return c.values();
}

std::vector<float> blocked_product() { return product(64, 128, 48); }

}  // namespace

std::vector<PlantedCase> planted_gemm() {
  return {
      {"sgemm", sgemm<kRight>, sgemm_product, {}},
      {"sgemm: first barrier missing",
       sgemm<kNoFirstBarrier>,
       sgemm_product,
       {Fault::kRace, Fault::kUninitialised}},
      {"sgemm: second barrier missing", sgemm<kNoSecondBarrier>, sgemm_product, {Fault::kRace}},
      {"sgemm: bound of k dropped", sgemm<kNoBoundOfK>, sgemm_product, {Fault::kOutOfBounds}},
      {"sgemm: tail of the tile not filled",
       sgemm<kTailNotFilled>,
       sgemm_product,
       {Fault::kUninitialised}},
      {"sgemm: barrier in two branches",
       sgemm<kBarrierInBranch>,
       sgemm_product,
       {Fault::kDivergentBarrier}},
      {"blocked sgemm", sgemm_blocked<true, 0>, blocked_product, {}},
      {"blocked sgemm: barrier missing",
       sgemm_blocked<false, 0>,
       blocked_product,
       {Fault::kRace, Fault::kUninitialised}},
      {"blocked sgemm: operand not aligned", sgemm_blocked<true, 1>, nullptr, {Fault::kMisaligned}},
  };
}

}  // namespace kinet
