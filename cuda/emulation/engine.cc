#include "cuda/emulation/engine.h"

namespace kinet::emulation {

Engine& engine() {
  static Engine* const device = new Engine;  // never destroyed: libraries free memory at exit
  return *device;
}

Options options() {
  const Lock lock(engine().mutex);
  return engine().options;
}

void set_options(const Options& options) {
  const Lock lock(engine().mutex);
  drain_all();
  engine().options = options;
}

Counters counters() {
  Engine& e = engine();
  const Lock lock(e.mutex);
  Counters result = e.counters;
  result.allocations = static_cast<int64_t>(e.device.live());
  result.bytes = e.device.live_bytes();
  return result;
}

void reset() {
  Engine& e = engine();
  const Lock lock(e.mutex);
  forget_streams();
  e.device.free_all();
  e.sticky = cudaSuccess;
  cudaGetLastError();
  e.reports.clear();
  e.counters = {};
  e.dynamic_limits.clear();
  e.shared.forget();
}

}  // namespace kinet::emulation
