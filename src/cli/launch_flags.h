// Flags of commands that run on several ranks: who starts them, where they meet, what carries
// bytes.
#pragma once

#include <string>

#include "comm/join_run.h"
#include "comm/launch.h"

namespace CLI {
class App;
}

namespace kinet {

struct LaunchFlags {
  LaunchSettings settings;  // --workers, --rank, --size, --rendezvous, --token-file
  std::string transport;    // --transport; "": as comm_param says
  bool verbose = false;     // --verbose: show what every rank prints
  int restarts = 0;         // --restarts: dead workers that are started again, in all
};

void add_launch_flags(CLI::App& app, LaunchFlags& flags);

// Checks the flags and says who this process is. Throws Error.
RankIdentity resolve_launch(const LaunchFlags& flags);

// Starts this program again as `ranks` ranks; returns the exit status. Of the first `servers` all
// have to live, and say how the run ended; a worker that dies does not end it. With servers == 0
// all have to live. REQUIRES: me.role == Role::kLauncher.
int run_launcher(const LaunchFlags& flags, int ranks, int servers);

// Meets the others. `fingerprint`: what has to be equal in all ranks, beside the size and the
// build. REQUIRES: me.role == Role::kRank.
JoinedRun join_as_rank(const RankIdentity& me,
                       const std::vector<std::pair<std::string, std::string>>& fingerprint);

// What --threads 0 stands for in a rank: the cores divided by the ranks of this node, of which the
// first `servers` of the run compute little and do not count. Where mpirun
// or srun has bound the rank to some cores, those.
int resolve_threads(int threads, const RankIdentity& me, const World& world, int servers);

// "" or " --workers 4 --transport tcp": for the command that repeats or goes on with a run.
std::string launch_flags_text(const LaunchFlags& flags);

}  // namespace kinet
