// Ranks for the bench commands: flags, and running one function on every rank.
//
//   --workers N                processes of this machine, started here (default 2)
//   mpirun, srun, --rank ...   ranks that somebody else starts
//   --transport inproc, --threads-as-ranks    threads of this process
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/launch.h"
#include "src/prototxt/node.h"

namespace CLI {
class App;
}

namespace kinet {

struct BenchFlags {
  LaunchSettings launch;
  std::string transport;          // "": as comm_param says
  std::string comm_param;         // text: "transport: \"tcp\" tcp { streams: 2 }"
  std::vector<std::string> sets;  // "tcp.streams=2", laid over it
  bool threads_as_ranks = false;
  bool verbose = false;
  std::string json;  // file for rank 0's results
};

void add_bench_flags(CLI::App& app, BenchFlags& flags);

// comm_param as given by the flags, checked. Throws Error with all that is wrong.
ParamNode bench_comm_param(const BenchFlags& flags);

bool ranks_are_threads(const BenchFlags& flags);

// Runs `body` on every rank of the run and returns the exit status; in the launcher that of the
// ranks. With threads the first exception of a rank is thrown when all have ended.
int run_bench_ranks(const BenchFlags& flags, const std::function<void(Communicator&)>& body);

// "kinet 0.1.0, shm to rank 1 ..., 2 ranks": what stands above a table.
std::string bench_heading(const Communicator& comm, bool verbose);

void write_json_file(const std::string& path, const std::string& text);

}  // namespace kinet
