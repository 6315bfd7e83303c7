// A device that nets run on: its memory, and what the back-end has for it (layers, update rules).
//
// A back-end is a library of its own that is opened when somebody asks for it (open_backend), so
// that whoever trains on the CPU pays nothing. Thread safety: a DeviceBackend may be used by any
// thread; a Device by one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/build_info.h"
#include "src/net/layer.h"
#include "src/optim/device_optimizer.h"
#include "src/tensor/device_memory.h"

namespace kinet {

class Device : public DeviceMemory {
 public:
  // The subclass of a layer type that runs here, or null when there is none.
  virtual std::unique_ptr<Layer> make_layer(const std::string& type) const = 0;
  // The rule of that name over these segments, or null when there is none. The device outlives it.
  virtual std::unique_ptr<DeviceOptimizer> make_optimizer(
      const std::string& type, const OptimizerSettings& settings,
      const std::vector<ParameterSegment>& segments) = 0;
};

// What a device can do at most, computed from what it tells of itself; 0: unknown.
struct DeviceLimits {
  double flops = 0;             // float32 a second, a multiply-add counted as two
  double tensor_flops = 0;      // the same with tf32 on its tensor cores
  double bytes_per_second = 0;  // of its memory
  // From what: "132 multiprocessors x 128 multiply-adds x 1.98 GHz; 2 x 3.20 GHz x 6144 bits".
  std::string computed_from;
};

// One device as `kinet devices` lists it.
struct DeviceInfo {
  int id = 0;
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "sm_90"
  std::string bus;           // its PCI address, "0000:3B:00.0"
  size_t memory_bytes = 0;
  int multiprocessors = 0;
  DeviceLimits limits;
  std::vector<int> peers;  // devices whose memory it can use without a copy through the host
};

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual std::string name() const = 0;  // "CUDA", "CUDA (emulated)"
  // Versions and the like, one line for people: "runtime 13.0, driver 13.0, cuBLAS 13.0.2".
  virtual std::string versions() const = 0;
  // Why no device can be used here and what to do about it, or "" when one can.
  virtual std::string problem() const = 0;
  virtual std::vector<DeviceInfo> devices() const = 0;  // none when there is a problem
  // Bytes that are free there now, 0 when that cannot be told. This process takes some of its
  // memory to look (CUDA: a few hundred MB, until it ends).
  virtual size_t free_bytes(int id) const = 0;
  // Throws a set-up Error that says why and what to do when there is no such device.
  virtual std::shared_ptr<Device> open(int id) = 0;
  virtual std::vector<std::string> layer_types() const = 0;
  virtual std::vector<std::string> optimizer_types() const = 0;
};

// What the library of a back-end shows: one function of this name gives the door. The build is
// compared before anything else of it is used.
inline constexpr char kBackendSymbol[] = "kinet_device_backend";
struct BackendDoor {
  BuildInfo build;
  DeviceBackend& (*backend)() = nullptr;
};

// The CUDA back-end: libkinet_cuda.so beside libkinet.so or, where KINET_CUDA_LIBRARY=emulated is
// in the environment, libkinet_cuda_emulated.so, in which kernels run on the CPU (for tests; slow);
// `checked`: libkinet_cuda_checked.so, in which every access of a kernel is looked at too. It is
// opened by the first call. Null, with the reason in `why`: there is none in this build.
DeviceBackend* find_cuda_backend(std::string* why);

}  // namespace kinet
