#include "src/cli/gpu_flag.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>

#include "src/base/check.h"
#include "src/base/text.h"

namespace kinet {
namespace {

constexpr char kNoBackend[] =
    "\nhint: build kinet where the CUDA toolkit is (cmake -D KINET_CUDA=ON), or compute on the "
    "CPU: "
    "leave --gpu out, or solver_mode: CPU";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Why no GPU can be used here, with what to do about it; "" when one can.
std::string problem(DeviceBackend** backend) {
  std::string why;
  *backend = find_cuda_backend(&why);
  if (*backend == nullptr) return "this build has no GPU back-end: " + why + kNoBackend;
  return (*backend)->problem();
}

std::string not_used(const std::string& why) {
  return "no GPU is used: " + first_line(why) + "; computing on the CPU";
}

int number(const std::string& text, const std::string& flag) {
  int id = -1;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  KINET_CHECK(error == std::errc() && stop == text.data() + text.size() && id >= 0,
              "--gpu {}: 'auto', the number of a GPU, or numbers separated by commas is wanted\n"
              "hint: 'kinet devices' lists the GPUs",
              flag);
  return id;
}

}  // namespace

void add_gpu_flag(CLI::App& app, std::string& gpu) {
  app.add_option("--gpu", gpu, "GPU to compute on: 0, 0,1 for workers, or auto; else the CPU")
      ->check([](const std::string& value) {
        return value.empty() ? std::string("is empty: 'auto' or the number of a GPU is wanted")
                             : "";
      });
}

GpuChoice read_gpu_choice(const std::string& flag, const Params* solver) {
  GpuChoice choice;
  if (flag == "auto") {
    choice.automatic = true;
  } else if (!flag.empty()) {
    for (const std::string& part : split_list(flag)) choice.ids.push_back(number(part, flag));
  } else if (solver != nullptr && solver->get_enum("solver_mode") == "GPU") {
    choice.ids.push_back(solver->get_int32("device_id"));
  }
  return choice;
}

void check_gpu_choice(const GpuChoice& choice) {
  if (choice.ids.empty()) return;
  DeviceBackend* backend = nullptr;
  const std::string why = problem(&backend);
  KINET_CHECK(why.empty(), "GPU {} cannot be used: {}", choice.ids.front(), why);
  const auto there = static_cast<int>(backend->devices().size());
  for (const int id : choice.ids) {
    KINET_CHECK(id < there,
                "there is no GPU {}: this machine has {}\nhint: 'kinet devices' lists "
                "them",
                id, there == 1 ? "GPU 0 only" : fmt::format("GPUs 0 to {}", there - 1));
  }
}

OpenedGpu open_gpu(const GpuChoice& choice, int worker) {
  OpenedGpu opened;
  if (!choice.wanted()) return opened;
  check_gpu_choice(choice);
  DeviceBackend* backend = nullptr;
  const std::string why = problem(&backend);
  if (!why.empty()) {
    opened.note = not_used(why);
    return opened;
  }
  std::vector<int> ids = choice.ids;
  if (choice.automatic) {
    for (const DeviceInfo& info : backend->devices()) ids.push_back(info.id);
  }
  opened.device = backend->open(ids[static_cast<size_t>(worker) % ids.size()]);
  opened.note = opened.device->description();
  if (backend->name() != "CUDA") {
    opened.note += "; emulated on the CPU, as KINET_CUDA_LIBRARY says: for tests, and slow";
  }
  return opened;
}

std::string workers_gpu_note(const GpuChoice& choice) {
  if (!choice.wanted()) return "";
  check_gpu_choice(choice);
  DeviceBackend* backend = nullptr;
  const std::string why = problem(&backend);
  if (!why.empty()) return not_used(why);
  std::string ids = choice.automatic ? "all" : fmt::format("{}", fmt::join(choice.ids, ", "));
  return fmt::format("workers compute on GPU {} of their machines ({})", ids, backend->name());
}

std::shared_ptr<Device> open_gpu(const std::string& flag, const Params* solver) {
  OpenedGpu opened = open_gpu(read_gpu_choice(flag, solver));
  if (!opened.note.empty()) std::fprintf(stderr, "kinet: %s\n", opened.note.c_str());
  return std::move(opened.device);
}

void note_cpu_only(const Params& solver, const std::string& command) {
  if (solver.get_enum("solver_mode") != "GPU") return;
  std::fprintf(stderr, "kinet: solver_mode: GPU is not for %s, which computes on the CPU\n",
               command.c_str());
}

int worker_on_node(const World& world, int servers) {
  int before = 0;
  for (int r = servers; r < world.rank; ++r) {
    before += world.members[r].node == world.members[world.rank].node ? 1 : 0;
  }
  return before;
}

}  // namespace kinet
