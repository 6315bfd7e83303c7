#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cuda/emulation/builtins.h"
#include "cuda/emulation/engine.h"

namespace kinet::emulation {
namespace {

constexpr size_t kMaxReports = 64;

// What a device answers for the rest of the process' life, or cudaSuccess where it goes on.
cudaError_t sticky_error(Fault fault) {
  switch (fault) {
    case Fault::kOutOfBounds:
    case Fault::kHostMemory:
      return cudaErrorIllegalAddress;
    case Fault::kMisaligned:
      return cudaErrorMisalignedAddress;
    case Fault::kDeadlock:
      return cudaErrorLaunchFailure;
    default:
      return cudaSuccess;
  }
}

}  // namespace

const char* name_of(ThreadOrder order) {
  switch (order) {
    case ThreadOrder::kForward:
      return "forward";
    case ThreadOrder::kBackward:
      return "backward";
    case ThreadOrder::kRandom:
      return "random";
  }
  return "?";
}

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::kOutOfBounds:
      return "out of bounds";
    case Fault::kHostMemory:
      return "host memory used in a kernel";
    case Fault::kUninitialised:
      return "uninitialised shared memory";
    case Fault::kRace:
      return "race";
    case Fault::kMisaligned:
      return "misaligned";
    case Fault::kDeadlock:
      return "deadlock";
    case Fault::kDivergentBarrier:
      return "divergent barrier";
    case Fault::kLaneOutsideMask:
      return "lane outside its mask";
    case Fault::kInactiveSource:
      return "inactive source lane";
    case Fault::kMixedWarpOperation:
      return "mixed warp operations";
    case Fault::kDeviceCall:
      return "bad range in a call";
  }
  return "?";
}

std::string place_of(const char* file, int line) {
  return fmt::format("{}:{}", std::filesystem::path(file).filename().string(), line);
}

std::string running_thread() {
  const uint3 &t = builtins.thread, &b = builtins.block;
  return fmt::format("thread ({}, {}, {}) of block ({}, {}, {})", t.x, t.y, t.z, b.x, b.y, b.z);
}

void report(Fault fault, const std::string& place, const std::string& text) {
  Engine& e = engine();
  const std::string kernel = e.in_launch ? e.scheduler.launch().site.what : "";
  const cudaError_t error = sticky_error(fault);
  if (error != cudaSuccess && e.sticky == cudaSuccess) e.sticky = error;
  const auto same = std::find_if(e.reports.begin(), e.reports.end(), [&](const Report& r) {
    return r.fault == fault && r.kernel == kernel && r.place == place;
  });
  if (same != e.reports.end()) {
    ++same->count;
  } else if (e.reports.size() < kMaxReports) {
    e.reports.push_back({fault, kernel, place, text, 1});
  }
}

std::vector<Report> take_reports() {
  Engine& e = engine();
  const Lock lock(e.mutex);
  return std::exchange(e.reports, {});
}

std::string text_of(const std::vector<Report>& reports) {
  std::string text;
  for (const Report& r : reports) {
    text += fmt::format("{}: {}: {}{}{}", r.place, name_of(r.fault), r.kernel,
                        r.kernel.empty() ? "" : ": ", r.text);
    if (r.count > 1) text += fmt::format(" ({} times)", r.count);
    text += '\n';
  }
  return text;
}

}  // namespace kinet::emulation
