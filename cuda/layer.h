// What the CUDA half of a layer includes.
//
// The CUDA half is a subclass of the CPU layer in cuda/<the same name>.cu that overrides forward
// and backward and registers itself under the layer's type:
//
//   class CudaRelu : public Relu { ... };
//   KINET_REGISTER_CUDA_LAYER("ReLU", CudaRelu);
//
// Inside forward and backward:
//   * `gpu_of(context)` has the stream that all work goes to and the cuBLAS handle.
//   * device_data() of bottoms, of blobs() and, in backward, device_diff() of tops are up to date;
//     the net marks what the layer writes (tops; in backward bottoms' diff and the gradients of
//     blobs(); buffers such as batch-norm statistics in both). Nothing else needs to be copied.
//   * A layer that must read values on the host (labels) calls `tensor.data_buffer()->to_host()`:
//     free when the host made them, as data layers do.
//   * Temporary workspaces and all tensors are device memory in the order of the stream: no
//     synchronisation is needed between layers, and a layer should not wait.
//   * reshape() is the CPU layer's unless the workspaces differ; WorkspacePlan::threads() is 1.
#pragma once

// fmt takes its constexpr away under nvcc, and then does not compile as C++20.
#if defined(__CUDACC__) && !defined(FMT_USE_CONSTEXPR)
#define FMT_USE_CONSTEXPR 1
#endif

#include <cublas_v2.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cuda/gpu.h"
#include "src/net/layer.h"

namespace kinet {

// One opened device.
struct Gpu {
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;  // bound to `stream`
  int multiprocessors = 1;
  int architecture = 0;              // 90 for sm_90; 0 emulated
  size_t shared_bytes_of_block = 0;  // with cudaFuncAttributeMaxDynamicSharedMemorySize
  DeviceMemory* memory = nullptr;    // the device itself, for allocate() and release()
};

// REQUIRES: context.device is a device of this back-end (the net saw to it).
Gpu& gpu_of(const Context& context);

// Throws a run-time Error "what failed: <text of the code>" with a hint, when the code is not 0.
void check_cuda(cudaError_t code, const char* call, const char* file, int line);
void check_cublas(cublasStatus_t code, const char* call, const char* file, int line);

#define KINET_CUDA_CHECK(call) ::kinet::check_cuda((call), #call, __FILE__, __LINE__)
#define KINET_CUBLAS_CHECK(call) ::kinet::check_cublas((call), #call, __FILE__, __LINE__)
// After KINET_LAUNCH: throws when the launch was refused.
#define KINET_CUDA_CHECK_LAUNCH() \
  ::kinet::check_cuda(cudaGetLastError(), "kernel launch", __FILE__, __LINE__)

// --- grids

inline constexpr int kThreads = 256;  // of a block, unless a kernel has reasons of its own

// Blocks of `threads` for n items, at least 1, at most what fills the device several times over:
// kernels walk with a grid stride,
//   for (int64_t i = global_thread(); i < n; i += grid_threads())
inline constexpr int64_t kMostBlocks = 65535;
inline unsigned blocks_for(int64_t n, int threads = kThreads) {
  const int64_t blocks = (n + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks);
}

#define KINET_GRID_STRIDE(i, n)                                                          \
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); \
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)

// --- registration

using CudaLayerMaker = std::unique_ptr<Layer> (*)();
// Of this library alone; filled before the library's entry point is called. Throws when twice.
bool register_cuda_layer(const std::string& type, CudaLayerMaker make);

// REQUIRES: a namespace-scope use in the .cu file.
#define KINET_REGISTER_CUDA_LAYER(type, Class)                                          \
  [[maybe_unused]] static const bool kRegistered##Class = ::kinet::register_cuda_layer( \
      type, []() -> std::unique_ptr<::kinet::Layer> { return std::make_unique<Class>(); })

}  // namespace kinet
