// What `kinet doctor` says about GPUs.
#include <fmt/format.h>

#include "src/base/text.h"
#include "src/cli/machine_checks.h"
#include "src/net/device.h"

namespace kinet {
namespace {

// "66.9 TFLOP/s": powers of 1000.
std::string rate(double value, const char* unit) {
  return value >= 1e12 ? fmt::format("{:.1f} T{}", value / 1e12, unit)
                       : fmt::format("{:.0f} G{}", value / 1e9, unit);
}

}  // namespace

std::string limits_line(const DeviceLimits& limits) {
  std::vector<std::string> parts;
  if (limits.flops > 0) parts.push_back(rate(limits.flops, "FLOP/s") + " float32");
  if (limits.tensor_flops > 0) parts.push_back(rate(limits.tensor_flops, "FLOP/s") + " tf32");
  if (limits.bytes_per_second > 0)
    parts.push_back(rate(limits.bytes_per_second, "B/s") + " memory");
  const std::string known = parts.empty() ? "unknown" : join(parts, ", ");
  return fmt::format("limits: {} ({})", known, limits.computed_from);
}

std::vector<std::string> gpu_lines(const DeviceInfo& gpu, size_t free_bytes) {
  const std::string free = free_bytes > 0 ? human_bytes(free_bytes) + " free of " : "";
  std::vector<std::string> lines{
      fmt::format("{}, {}, {} multiprocessors, {}{}, bus {}", gpu.name, gpu.architecture,
                  gpu.multiprocessors, free, human_bytes(gpu.memory_bytes), gpu.bus),
      limits_line(gpu.limits)};
  if (!gpu.peers.empty()) {
    lines.push_back(fmt::format("uses the memory of GPU {} without a copy through the host",
                                fmt::join(gpu.peers, ", ")));
  }
  return lines;
}

Finding gpu_finding() {
  Finding finding{"GPU", Finding::Level::kNote, "", {}, ""};
  std::string why;
  const DeviceBackend* backend = find_cuda_backend(&why);
  if (backend == nullptr) {
    finding.summary = "none: this build has no GPU back-end";
    finding.details.push_back(why);
    finding.remedy =
        "training runs on the CPU; for GPUs, build where the CUDA toolkit is (-D KINET_CUDA=ON)";
    return finding;
  }
  finding.details.push_back(backend->name() + ": " + backend->versions());
  const std::string problem = backend->problem();
  if (!problem.empty()) {
    const size_t end = problem.find("\nhint: ");
    finding.summary = "none: " + problem.substr(0, end);
    finding.remedy = "training runs on the CPU";
    if (end != std::string::npos) finding.remedy += "; for GPUs, " + problem.substr(end + 7);
    return finding;
  }
  const std::vector<DeviceInfo> devices = backend->devices();
  finding.level = Finding::Level::kGood;
  finding.summary = fmt::format("{} {} to train on (--gpu)", devices.size(),
                                devices.size() == 1 ? "GPU" : "GPUs");
  for (const DeviceInfo& d : devices) {
    const std::vector<std::string> lines = gpu_lines(d, backend->free_bytes(d.id));
    for (size_t i = 0; i < lines.size(); ++i) {
      finding.details.push_back((i == 0 ? fmt::format("GPU {}: ", d.id) : "       ") + lines[i]);
    }
  }
  finding.details.push_back(fmt::format("{} layer types and {} update rules run there",
                                        backend->layer_types().size(),
                                        backend->optimizer_types().size()));
  return finding;
}

}  // namespace kinet
