// Errors of the CUDA runtime and of cuBLAS become kinet::Error; see layer.h.
#include "cuda/layer.h"
#include "src/base/check.h"

namespace kinet {
namespace {

const char* hint(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return "\nhint: the device's memory is full; a smaller batch_size needs less, and "
             "nvidia-smi shows who else uses the device";
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
      return "\nhint: `kinet doctor` tells what is missing; solver_mode: CPU needs no device";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return "\nhint: a kernel failed, perhaps an earlier one: with CUDA_LAUNCH_BLOCKING=1 in the "
             "environment the call named here is the right one";
    default:
      return "";
  }
}

const char* text_of(cublasStatus_t code) {
  switch (code) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "not initialised";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "no memory left";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "not supported by this device";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "execution failed";
    default:
      return "failed";
  }
}

}  // namespace

void check_cuda(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  fail_runtime("CUDA: {}: {} (code {}, {}:{}){}", call, cudaGetErrorString(code),
               static_cast<int>(code), file, line, hint(code));
}

void check_cublas(cublasStatus_t code, const char* call, const char* file, int line) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  fail_runtime("cuBLAS: {}: {} (status {}, {}:{})", call, text_of(code), static_cast<int>(code),
               file, line);
}

}  // namespace kinet
