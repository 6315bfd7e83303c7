// What `kinet doctor` says about GPUs.
#include <fmt/format.h>

#include "src/base/text.h"
#include "src/cli/machine_checks.h"
#include "src/net/device.h"

namespace kinet {

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
    finding.details.push_back(fmt::format("GPU {}: {}, {}, {}", d.id, d.name, d.architecture,
                                          human_bytes(d.memory_bytes)));
  }
  finding.details.push_back(fmt::format("{} layer types and {} update rules run there",
                                        backend->layer_types().size(),
                                        backend->optimizer_types().size()));
  return finding;
}

}  // namespace kinet
