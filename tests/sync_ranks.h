// A whole run with servers in one process: every rank a thread with its own solver and
// communicator, over any transport.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/communicator_ranks.h"
#include "tests/solver_helpers.h"

namespace kinet {

struct SyncRun {
  std::string transport = "inproc";
  int servers = 1, workers = 2;  // no servers: all-reduce
  // What a gradient takes on sim, in seconds, by worker; shorter lists repeat.
  std::vector<double> step_seconds = {0.01};
  std::string comm;                   // fields of comm_param
  std::vector<SimFault> faults = {};  // on sim
  size_t bucket_bytes = 0;            // of all-reduce: BspOptions
  // May hook into a rank before it starts; the communicator lives until the rank has ended.
  std::function<void(Rank, TestRun&, Communicator&)> with_communicator;
};

// One rank as a test sees it.
struct SyncRank {
  std::unique_ptr<TestRun> run;
  FinishRecord end;
  std::string error;
};

// Runs `text` on servers, then workers; `before` may hook into a rank before it starts. REQUIRES:
// `text` names the same number of servers.
std::vector<SyncRank> run_sync(const std::string& text, const SyncRun& run,
                               const SolverOptions& options,
                               const std::function<void(Rank, TestRun&)>& before = nullptr);

}  // namespace kinet
