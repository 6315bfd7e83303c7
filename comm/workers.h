// The local launcher: starts N processes of one program as the ranks of a run, hosts their
// rendezvous, shows what they print, watches them and ends them.
//
// When a rank fails (a status that is not 0, or a signal) the others have `grace` seconds to end by
// themselves, as their peers tell them; then they get SIGTERM, and `terminate` seconds later
// SIGKILL. SIGINT, SIGTERM and SIGHUP to this process are passed on to every rank, each once.
// When this process dies, the kernel kills the ranks.
//
// Once all vital ranks have ended the others have `grace` seconds too: who is left then is stopped.
//
// Exit status: 0 when all vital ranks ended with 0; else that of the first of them that failed,
// where a rank killed by a signal (128 + signal) comes before those that failed because of it.
// REQUIRES: one group at a time; handlers of signals belong to the whole process.
#pragma once

#include <string>
#include <vector>

#include "comm/line_merger.h"

namespace kinet {

struct WorkerOptions {
  bool verbose = false;  // show what all ranks print
  int restarts = 0;      // dead ranks that are replaced, in all; not those that ended with status 2
  // Ranks below this number are vital; 0: all are. One that is not may fail without ending the
  // others, does not count for the exit status, and alone is replaced.
  int vital = 0;
  double grace = 3, terminate = 1.5;  // seconds
  TextSink out, err;                  // empty: stdout and stderr
};

// Runs `program` with `arguments` (the first is its name) `count` times, told apart by the
// variables of rank_variables(). Returns the exit status. Throws Error when a process cannot be
// started; then none is left.
int run_workers(const std::string& program, const std::vector<std::string>& arguments, int count,
                const WorkerOptions& options);

// This very program with the arguments it was started with.
int run_workers_of_this_program(int count, const WorkerOptions& options);

}  // namespace kinet
