// The entry of libkinet_cuda.so: which devices there are, and opening one. Also why there is none:
// the library itself can be opened on a machine without GPU or driver.
#include <build_info.h>

#include <cctype>
#include <fstream>

#include "cuda/device.h"
#include "cuda/limits.h"
#include "cuda/registry.h"
#include "src/base/check.h"

namespace kinet {
namespace {

#ifdef __CUDACC__
constexpr char kName[] = "CUDA";

std::string blas_version() {
  int major = 0, minor = 0, patch = 0;
  cublasGetProperty(MAJOR_VERSION, &major);
  cublasGetProperty(MINOR_VERSION, &minor);
  cublasGetProperty(PATCH_LEVEL, &patch);
  return fmt::format("cuBLAS {}.{}.{}", major, minor, patch);
}

// "580.95.05 " of the kernel's module, or "" where /proc does not show it.
std::string module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != std::string::npos) {
      return word + " ";
    }
  }
  return "";
}
#else
constexpr char kName[] = "CUDA (emulated on the CPU)";

std::string blas_version() { return "cuBLAS emulated"; }
std::string module_version() { return ""; }
#endif

std::string version_text(int version) {  // 13000 -> "13.0"
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int driver_version() {  // 0: none is loaded
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

class Cuda : public DeviceBackend {
 public:
  std::string name() const override { return kName; }

  std::string versions() const override {
    const int driver = driver_version();
    return fmt::format("runtime {}, driver {}, {}", version_text(runtime_version()),
                       driver == 0 ? "none" : module_version() + "for CUDA " + version_text(driver),
                       blas_version());
  }

  // The count is not written when the call fails.
  std::string problem() const override {
    const int driver = driver_version();
    if (driver == 0) {
      return "no NVIDIA driver is loaded on this machine (libcuda.so.1 is not found)\nhint: "
             "install the driver of the GPU; without a GPU, run on the CPU";
    }
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess) cudaGetLastError();  // told here, not by the next call
    if (code == cudaErrorInsufficientDriver) {
      return fmt::format(
          "the NVIDIA driver is too old: it supports CUDA {}, this build needs {}\nhint: update "
          "the driver, or build kinet with an older CUDA toolkit",
          version_text(driver), version_text(runtime_version()));
    }
    if (code == cudaErrorNoDevice || (code == cudaSuccess && count < 1)) {
      return "the NVIDIA driver finds no GPU\nhint: look at nvidia-smi, and at "
             "CUDA_VISIBLE_DEVICES in the environment, which can hide GPUs";
    }
    if (code == cudaSuccess) return "";
    return fmt::format("the CUDA runtime cannot start: {} (code {})\nhint: look at nvidia-smi",
                       cudaGetErrorString(code), static_cast<int>(code));
  }

  std::vector<DeviceInfo> devices() const override {
    std::vector<DeviceInfo> found;
    if (!problem().empty()) return found;
    int count = 0;
    KINET_CUDA_CHECK(cudaGetDeviceCount(&count));
    for (int id = 0; id < count; ++id) found.push_back(describe(id, count));
    return found;
  }

  size_t free_bytes(int id) const override {
    size_t free = 0, total = 0;
    const bool told =
        cudaSetDevice(id) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess;
    if (!told) cudaGetLastError();  // told by the 0, not by the next call
    return told ? free : 0;
  }

  std::shared_ptr<Device> open(int id) override {
    const std::string why = problem();
    KINET_CHECK(why.empty(), "GPU {} cannot be used: {}", id, why);
    int count = 0;
    KINET_CUDA_CHECK(cudaGetDeviceCount(&count));
    KINET_CHECK(id >= 0 && id < count,
                "there is no GPU {}: this machine has {}\nhint: 'kinet devices' lists them", id,
                count == 1 ? "GPU 0 only" : fmt::format("GPUs 0 to {}", count - 1));
    return std::make_shared<CudaDevice>(id);
  }

  std::vector<std::string> layer_types() const override { return names(cuda_layers()); }
  std::vector<std::string> optimizer_types() const override { return names(cuda_optimizers()); }

 private:
  // Opens nothing on the device. REQUIRES: 0 <= id < count
  static DeviceInfo describe(int id, int count) {
    cudaDeviceProp properties{};
    KINET_CUDA_CHECK(cudaGetDeviceProperties(&properties, id));
    DeviceInfo info;
    info.id = id;
    info.name = properties.name;
    info.architecture = fmt::format("sm_{}{}", properties.major, properties.minor);
    info.memory_bytes = properties.totalGlobalMem;
    info.multiprocessors = properties.multiProcessorCount;
    char bus[32] = "";
    KINET_CUDA_CHECK(cudaDeviceGetPCIBusId(bus, sizeof(bus), id));
    info.bus = bus;
    info.limits = limits_of(properties, id);
    for (int other = 0; other < count; ++other) {
      int reaches = 0;
      if (other == id) continue;
      KINET_CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, id, other));
      if (reaches != 0) info.peers.push_back(other);
    }
    return info;
  }

  template <class Entries>
  static std::vector<std::string> names(const Entries& entries) {
    std::vector<std::string> out;
    for (const auto& [type, make] : entries) out.push_back(type);
    return out;
  }
};

DeviceBackend& backend() {
  static Cuda cuda;
  return cuda;
}

}  // namespace
}  // namespace kinet

extern "C" __attribute__((visibility("default"))) const kinet::BackendDoor* kinet_device_backend() {
  static const kinet::BackendDoor door{{KINET_BUILD_VERSION, KINET_BUILD_TYPE, KINET_BUILD_COMPILER,
                                        KINET_BUILD_SANITIZE, KINET_BUILD_COMMIT},
                                       kinet::backend};
  return &door;
}
