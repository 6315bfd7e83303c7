// Devices, errors, and attributes of kernels.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cuda/emulation/engine.h"

namespace kinet::emulation {
namespace {

// Each host thread has its own last error, as in CUDA.
cudaError_t& last_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

constexpr int kVersion = 13000;  // of the CUDA runtime that is emulated
constexpr int kMultiprocessors = 4;
constexpr int kThreadsPerMultiprocessor = 2048;
constexpr size_t kSharedPerMultiprocessor = 164 * 1024;  // bytes
constexpr size_t kSharedReserved = 1024;  // bytes that the system takes for each block

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
#define KINET_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    KINET_ERROR(cudaSuccess, "no error"),
    KINET_ERROR(cudaErrorInvalidValue, "invalid argument"),
    KINET_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    KINET_ERROR(cudaErrorInitializationError, "initialization error"),
    KINET_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    KINET_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    KINET_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    KINET_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    KINET_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    KINET_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    KINET_ERROR(cudaErrorInsufficientDriver,
                "CUDA driver version is insufficient for CUDA runtime version"),
    KINET_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    KINET_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    KINET_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    KINET_ERROR(cudaErrorPeerAccessUnsupported, "peer access is not supported"),
    KINET_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    KINET_ERROR(cudaErrorNotReady, "device not ready"),
    KINET_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    KINET_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    KINET_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    KINET_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                "part or all of the requested memory range is already mapped"),
    KINET_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    KINET_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    KINET_ERROR(cudaErrorNotSupported, "operation not supported"),
};
#undef KINET_ERROR

const ErrorText* text_of(cudaError_t error) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [&](const ErrorText& text) { return text.error == error; });
  return found == std::end(kErrors) ? nullptr : found;
}

cudaError_t device_error(int device) {
  const int count = engine().options.device_count;
  if (count < 1) return cudaErrorNoDevice;
  return device < 0 || device >= count ? cudaErrorInvalidDevice : engine().sticky;
}

}  // namespace

cudaError_t finish(cudaError_t error) {
  const cudaError_t sticky = engine().sticky;
  if (sticky != cudaSuccess) error = sticky;
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error() = error;
  return error;
}

cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || static_cast<size_t>(value) > e.options.shared_memory_opt_in) {
      return finish(cudaErrorInvalidValue);
    }
    e.dynamic_limits[kernel] = static_cast<size_t>(value);
  }
  return finish(cudaSuccess);
}

cudaError_t function_attributes(cudaFuncAttributes* attributes, const void* kernel) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  const auto limit = e.dynamic_limits.find(kernel);
  *attributes = {};
  attributes->maxThreadsPerBlock = kMaxThreads;
  attributes->maxDynamicSharedSizeBytes =
      static_cast<int>(limit == e.dynamic_limits.end() ? kSharedWithoutAttribute : limit->second);
  return finish(cudaSuccess);
}

cudaError_t occupancy(int* blocks, int block_size, size_t shared_bytes) {
  const Lock lock(engine().mutex);
  if (block_size < 1 || block_size > kMaxThreads) return finish(cudaErrorInvalidValue);
  const auto by_shared = kSharedPerMultiprocessor / (shared_bytes + kSharedReserved);
  *blocks = static_cast<int>(std::min<size_t>(
      {32, by_shared, static_cast<size_t>(kThreadsPerMultiprocessor / block_size)}));
  return finish(cudaSuccess);
}

}  // namespace kinet::emulation

using namespace kinet::emulation;

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error() = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const Lock lock(engine().mutex);
  return engine().sticky != cudaSuccess ? engine().sticky : last_error();
}

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* found = text_of(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* found = text_of(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Lock lock(engine().mutex);
  if (engine().options.device_count < 1) return finish(cudaErrorNoDevice);  // *count stays
  *count = engine().options.device_count;
  return finish(cudaSuccess);
}

namespace {
thread_local int current_device = 0;
}

cudaError_t cudaGetDevice(int* device) {
  const Lock lock(engine().mutex);
  *device = current_device;
  return finish(device_error(current_device));
}

cudaError_t cudaSetDevice(int device) {
  const Lock lock(engine().mutex);
  const cudaError_t error = device_error(device);
  if (error == cudaSuccess) current_device = device;
  return finish(error);
}

cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  if (const cudaError_t error = device_error(device); error != cudaSuccess) return finish(error);
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof(p.name), "kinet host emulation");
  std::memcpy(p.uuid.bytes, "kinet-emulation", 15);
  p.uuid.bytes[15] = static_cast<char>(device);
  p.totalGlobalMem = e.options.memory_bytes;
  p.sharedMemPerBlock = kSharedWithoutAttribute;
  p.sharedMemPerBlockOptin = e.options.shared_memory_opt_in;
  p.sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = kWarpLanes;
  p.maxThreadsPerBlock = kMaxThreads;
  p.maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 65536;
  p.major = e.options.compute_capability / 10;
  p.minor = e.options.compute_capability % 10;
  p.multiProcessorCount = kMultiprocessors;
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = 1;
  p.pciBusID = device + 1;
  p.asyncEngineCount = 2;
  p.memoryBusWidth = 256;   // bits
  p.l2CacheSize = 4 << 20;  // bytes
  *properties = p;
  return finish(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) {
    return error;
  }
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      break;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
      *value = 1000000;  // kHz
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = p.memoryBusWidth;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrIntegrated:
    case cudaDevAttrGPUDirectRDMASupported:
    case cudaDevAttrMemoryPoolsSupported:
      *value = 0;
      break;
    default:
      return finish(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const Lock lock(engine().mutex);
  if (length < 13) return finish(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", (device + 1) & 0xff);
  return finish(device_error(device));
}

cudaError_t cudaDeviceSynchronize() {
  const Lock lock(engine().mutex);
  drain_all();
  return finish(device_error(current_device));
}

cudaError_t cudaDeviceReset() {
  reset();
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  const Lock lock(engine().mutex);
  *can_access = 0;
  const cudaError_t error = device_error(device);
  return finish(error == cudaSuccess ? device_error(peer) : error);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
