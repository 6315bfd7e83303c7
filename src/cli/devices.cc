// kinet devices: what this machine computes with: processor, cores, vector kernels, BLAS, memory,
// GPUs.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <thread>

#include "src/base/text.h"
#include "src/cli/command.h"
#include "src/cli/machine_checks.h"
#include "src/math/blas.h"
#include "src/math/vec.h"
#include "src/net/device.h"

namespace kinet {
namespace {

// The processor's name as Linux tells it; other systems, or a /proc that is shut: "unknown".
std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const bool is_model = line.rfind("model name", 0) == 0 || line.rfind("Model", 0) == 0;
    const size_t colon = line.find(": ");
    if (is_model && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string vector_sets() {
  std::string out;
  for (int i = 0; i < vec_variant_count(); ++i) {
    out += std::string(i == 0 ? "" : ", ") + vec_variant(i).name;
  }
  return out + " (in use: " + vec().name + ")";
}

uint64_t memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

class Devices : public Command {
 public:
  static CommandType describe() {
    return {"devices", "what this machine computes with", "kinet devices"};
  }
  void configure(CLI::App&) override {}

  int run() override {
    std::printf("CPU      %s\n", cpu_model().c_str());
    std::printf("cores    %u\n", std::thread::hardware_concurrency());
    std::printf("kernels  %s\n", vector_sets().c_str());
    std::printf("BLAS     %s\n", blas_description().c_str());
    std::printf("memory   %s\n", human_bytes(memory_bytes()).c_str());
    print_gpus();
    return 0;
  }

 private:
  static void print_gpus() {
    std::string why;
    const DeviceBackend* backend = find_cuda_backend(&why);
    if (backend == nullptr) {
      std::printf("GPU      none: this build has no GPU back-end (%s)\n", why.c_str());
      return;
    }
    const std::string problem = backend->problem();
    if (!problem.empty()) {
      std::printf("GPU      none: %s\n", problem.substr(0, problem.find('\n')).c_str());
    }
    for (const DeviceInfo& d : backend->devices()) {
      const std::vector<std::string> lines = gpu_lines(d, backend->free_bytes(d.id));
      std::printf("GPU %-4d %s\n", d.id, lines[0].c_str());
      for (size_t i = 1; i < lines.size(); ++i) std::printf("%8s %s\n", "", lines[i].c_str());
    }
    std::printf("CUDA     %s\n", (backend->name() + ": " + backend->versions()).c_str());
  }
};
KINET_REGISTER_COMMAND(Devices);

}  // namespace
}  // namespace kinet
