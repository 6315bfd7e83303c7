// On what a command computes: the flag --gpu, and solver_mode and device_id of a solver file.
//
//   --gpu 0       this GPU; without it the command ends (status 2) and says why and what to do
//   --gpu 0,1     several workers of this machine: worker i takes number i of the list, round and
//                 round when there are more workers than numbers
//   --gpu auto    all there are; the CPU, and one line that says why, when there is none
//   solver_mode: GPU in the solver file is --gpu <device_id>; the flag wins
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/rendezvous.h"
#include "src/net/device.h"
#include "src/prototxt/fields.h"

namespace CLI {
class App;
}

namespace kinet {

void add_gpu_flag(CLI::App& app, std::string& gpu);

struct GpuChoice {
  bool automatic = false;
  std::vector<int> ids;  // none, and not automatic: the CPU
  bool wanted() const { return automatic || !ids.empty(); }
};

// Throws a set-up Error when the flag is no choice. `solver` may be null.
GpuChoice read_gpu_choice(const std::string& flag, const Params* solver);

// Throws a set-up Error when what was asked for by number cannot be had; opens nothing.
void check_gpu_choice(const GpuChoice& choice);

struct OpenedGpu {
  std::shared_ptr<Device> device;  // null: the CPU
  std::string note;                // one line for the user, or ""
};
// `worker`: number of this process among the workers of this machine. Throws as check_gpu_choice().
OpenedGpu open_gpu(const GpuChoice& choice, int worker = 0);
// The note of a server, which opens none itself; "" when none is asked for. Throws as
// check_gpu_choice().
std::string workers_gpu_note(const GpuChoice& choice);
// For commands of one process: the note goes to stderr.
std::shared_ptr<Device> open_gpu(const std::string& flag, const Params* solver = nullptr);

// For commands that compute on the CPU whatever the file says: says so on stderr.
void note_cpu_only(const Params& solver, const std::string& command);

// Number of this rank among the workers of its machine; the first `servers` ranks are servers.
int worker_on_node(const World& world, int servers);

}  // namespace kinet
