#include "cuda/emulation/launch.h"

#include <algorithm>

#include "cuda/emulation/builtins.h"
#include "cuda/emulation/checker.h"
#include "cuda/emulation/engine.h"

namespace kinet::emulation {
namespace {

// What a device of any supported compute capability refuses.
cudaError_t launch_error(const Launch& launch) {
  const dim3 &grid = launch.grid, &block = launch.block;
  const bool empty =
      grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0;
  if (empty || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 || block.x > 1024 ||
      block.y > 1024 || block.z > 64) {
    return cudaErrorInvalidConfiguration;
  }
  if (static_cast<size_t>(block.x) * block.y * block.z > kMaxThreads) {
    return cudaErrorInvalidConfiguration;
  }
  const Engine& e = engine();
  const auto limit = e.dynamic_limits.find(launch.kernel);
  const size_t allowed = limit == e.dynamic_limits.end()
                             ? kSharedWithoutAttribute
                             : std::max(limit->second, kSharedWithoutAttribute);
  return launch.shared_bytes > allowed ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

unsigned char* dynamic_shared_memory() {
  return reinterpret_cast<unsigned char*>(engine().shared.dynamic().begin);
}

void submit(Launch launch, cudaStream_t stream) {
  Engine& e = engine();
  const Lock lock(e.mutex);
  cudaError_t error = e.sticky;
  if (error == cudaSuccess && e.options.device_count < 1) error = cudaErrorNoDevice;
  if (error == cudaSuccess) error = launch_error(launch);
  if (error != cudaSuccess) {
    finish(error);
    return;
  }
  enqueue(stream, [launch = std::move(launch)] { run_launch(launch); });
}

void run_launch(const Launch& launch) {
  Engine& e = engine();
  if (e.sticky != cudaSuccess) return;
  ++e.counters.launches;
  e.shared.begin_launch(launch.kernel, launch.shared_bytes);
  e.in_launch = true;
  if (launch.checked) checker().begin_launch(launch);
  e.scheduler.run(launch, e.options);
  if (launch.checked) checker().end_launch();
  e.in_launch = false;
  e.shared.end_launch();
}

}  // namespace kinet::emulation
