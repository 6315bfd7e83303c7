// `kinet simulate --cluster PROFILE`: the virtual cluster of src/sim, as a command.
#pragma once

#include <string>
#include <vector>

#include "src/cli/console.h"

namespace kinet {

struct ClusterCommand {
  std::string solver, objective, cluster, out, command_line;
  int workers = 1, lanes = 0;  // lanes 0: all cores
  std::string seed;            // "": of the solver file, else of the clock
  std::vector<std::string> set, cluster_set, weights;
  bool quiet = false;
};

// Exit status. Throws Error for what cannot be run.
int simulate_cluster(const ClusterCommand& command);

// `kinet simulate --calibrate RUN_DIR`: prints a profile, or writes it to `out`.
int print_calibration(const std::string& run_dir, const std::string& out);

}  // namespace kinet
