// Which ranks of a run are servers and which are workers, as the solver file says.
#pragma once

#include "src/cli/slow_flag.h"
#include "src/solver/solver.h"

namespace CLI {
class App;
}

namespace kinet {

struct SyncRoles {
  int servers = 0, workers = 1;
  int ranks() const { return servers + workers; }
};

// --sync MODEL: short for --set sync_param.model=MODEL.
void add_sync_flag(CLI::App& app, std::string& model);
void apply_sync_flag(const std::string& model, SolverOptions& options);

// --replay RUN: the rounds of a run that is there are repeated. check_replay() throws Error when
// there is no log, or this run has no servers that could follow it; and takes the log's seed where
// nothing else names one.
void add_replay_flag(CLI::App& app, std::string& run);
void check_replay(const SyncRoles& roles, SolverOptions& options);

// For so many workers, and for a run of so many ranks, servers included. Throws Error at the place
// in the file when sync_param does not suit that number, or the rest of the file.
SyncRoles roles_of_workers(const SolverConfig& config, int workers);
SyncRoles roles_of_ranks(const SolverConfig& config, int ranks);

// Says in `options` what rank `rank` is.
void assign_role(const SyncRoles& roles, int rank, const SlowFlag& slow, SolverOptions& options);

// "K-sync through 1 server": for the line that describes a run.
std::string describe_sync(const SolverConfig& config, const SyncRoles& roles);

}  // namespace kinet
