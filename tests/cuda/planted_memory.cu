// Update rules with 128-bit accesses, and pointers to the wrong memory.
#include <algorithm>

#include "cuda/gpu.h"
#include "tests/cuda/device_vector.h"
#include "tests/cuda/planted.h"

namespace kinet {
namespace {

using emulation::Fault;

// --- w -= rate * g, four at a time

__global__ void sgd_kernel(float4* w, const float4* g, float rate, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 gradient = g[i];
  float4 weight = w[i];
  weight.x -= rate * gradient.x;
  weight.y -= rate * gradient.y;
  weight.z -= rate * gradient.z;
  weight.w -= rate * gradient.w;
  w[i] = weight;
}

template <int shift, int count>
std::vector<float> sgd() {
  const DeviceVector<float> w(whole_numbers(66, 9)), g(whole_numbers(66, 5));
  KINET_LAUNCH(sgd_kernel, 1, 32, 0, nullptr, reinterpret_cast<float4*>(w + shift),
               reinterpret_cast<const float4*>(g.data()), 0.5f, count);
  return w.values();
}

std::vector<float> sgd_expected() {
  auto w = whole_numbers(66, 9);
  const auto g = whole_numbers(66, 5);
  for (size_t i = 0; i < 64; ++i) w[i] -= 0.5f * g[i];
  return w;
}

// --- pointers

struct Wrapped {  // a structure as an argument: the launch copies it
  const float* from;
  float* to;
  int n;
};

__constant__ float doubling[2] = {1, 2};

__global__ void double_kernel(Wrapped all) {
  const int i = threadIdx.x;
  if (i < all.n) all.to[i] = doubling[1] * all.from[i];
}

std::vector<float> doubled_values() {
  auto y = whole_numbers(20, 9);
  for (float& value : y) value *= 2;
  return y;
}

std::vector<float> double_right() {
  const DeviceVector<float> x(whole_numbers(20, 9)), y(20);
  KINET_LAUNCH(double_kernel, 1, 32, 0, nullptr, Wrapped{x, y, 20});
  return y.values();
}

std::vector<float> double_pinned() {
  float* x = nullptr;
  cudaMallocHost(&x, 20 * sizeof(float));
  const auto values = whole_numbers(20, 9);
  std::copy(values.begin(), values.end(), x);
  const DeviceVector<float> y(20);
  KINET_LAUNCH(double_kernel, 1, 32, 0, nullptr, Wrapped{x, y, 20});
  cudaFreeHost(x);
  return y.values();
}

std::vector<float> double_pinned_too_far() {
  float* x = nullptr;
  cudaMallocHost(&x, 19 * sizeof(float));
  const DeviceVector<float> y(20);
  KINET_LAUNCH(double_kernel, 1, 32, 0, nullptr, Wrapped{x, y, 20});
  cudaFreeHost(x);
  return {};
}

std::vector<float> double_host() {
  const auto x = whole_numbers(20, 9);
  const DeviceVector<float> y(20);
  KINET_LAUNCH(double_kernel, 1, 32, 0, nullptr, Wrapped{x.data(), y, 20});
  return {};
}

std::vector<float> double_host_stack() {
  float x[20] = {};
  const DeviceVector<float> y(20);
  KINET_LAUNCH(double_kernel, 1, 32, 0, nullptr, Wrapped{x, y, 20});
  return {};
}

std::vector<float> double_freed() {
  const float* freed = nullptr;
  {
    const DeviceVector<float> x(whole_numbers(20, 9));
    freed = x;
  }
  const DeviceVector<float> y(20);
  KINET_LAUNCH(double_kernel, 1, 32, 0, nullptr, Wrapped{freed, y, 20});
  return {};
}

std::vector<float> double_null() {
  const DeviceVector<float> y(20);
  KINET_LAUNCH(double_kernel, 1, 32, 0, nullptr, Wrapped{nullptr, y, 20});
  return {};
}

std::vector<float> double_before_begin() {
  const DeviceVector<float> x(whole_numbers(20, 9)), y(20);
  KINET_LAUNCH(double_kernel, 1, 32, 0, nullptr, Wrapped{x - 1, y, 20});
  return {};
}

}  // namespace

std::vector<PlantedCase> planted_memory() {
  return {
      {"sgd", sgd<0, 16>, sgd_expected, {}},
      {"sgd: float4 not aligned", sgd<1, 16>, nullptr, {Fault::kMisaligned}},
      {"sgd: the last float4 reaches over the end", sgd<0, 17>, nullptr, {Fault::kOutOfBounds}},
      {"pointers: device", double_right, doubled_values, {}},
      {"pointers: pinned host memory", double_pinned, doubled_values, {}},
      {"pointers: over the end of pinned memory",
       double_pinned_too_far,
       nullptr,
       {Fault::kOutOfBounds}},
      {"pointers: host heap", double_host, nullptr, {Fault::kHostMemory}},
      {"pointers: host stack", double_host_stack, nullptr, {Fault::kHostMemory}},
      {"pointers: freed", double_freed, nullptr, {Fault::kOutOfBounds}},
      {"pointers: null", double_null, nullptr, {Fault::kHostMemory}},
      {"pointers: before the begin", double_before_begin, nullptr, {Fault::kOutOfBounds}},
  };
}

}  // namespace kinet
