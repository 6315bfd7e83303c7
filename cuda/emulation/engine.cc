#include "cuda/emulation/engine.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "cuda/emulation/checker.h"

namespace kinet::emulation {

namespace {

void write_access_file() {
  const std::string& path = engine().access_file;
  std::ofstream file(path);
  file << text_of(take_access_statistics());
  file.close();
  if (!file) fmt::print(stderr, "KINET_CUDA_ACCESSES: cannot write {}\n", path);
}

Engine* make_engine() {
  auto* const device = new Engine;  // never destroyed: libraries free memory at exit
  if (const char* path = std::getenv("KINET_CUDA_ACCESSES"); path != nullptr && *path != 0) {
    device->access_file = path;
    std::atexit(write_access_file);
  }
  return device;
}

}  // namespace

Engine& engine() {
  static Engine* const device = make_engine();
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

std::vector<AccessRow> take_access_statistics() {
  const Lock lock(engine().mutex);
  return checker().statistics().take();
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
