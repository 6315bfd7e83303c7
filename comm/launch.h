// Who this process is: alone, a launcher of ranks, or one rank of a run, and which.
//
// Looked at in this order; the first that says something decides:
//   1. variables of our own launcher (--workers N):  KINET_RANK, _SIZE, _RENDEZVOUS, _TOKEN
//   2. flags:                                        --rank, --size
//   3. variables of Open MPI, of PMI (MPICH, Hydra, Intel MPI), of a Slurm step; PMIx alone names
//      no size
//   4. --workers N
// A run of one rank is no run: that process is alone.
//
// Variables say only who a process is and where it meets the others, never how it behaves.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/transport.h"

namespace kinet {

using Variables = std::map<std::string, std::string>;

// Flags as given.
struct LaunchSettings {
  int workers = 0;  // 0: not given; 1: alone, whatever started this process
  int rank = -1;    // -1: not given
  int size = 0;     // 0: not given
  std::string rendezvous, token_file;
};

enum class Role { kAlone, kLauncher, kRank };

struct RankIdentity {
  Role role = Role::kAlone;
  Rank rank = 0;
  int size = 1;            // of the run; of a launcher: the workers to start
  std::string source;      // "--workers", "--rank", "Open MPI", ...: who said so
  std::string rendezvous;  // host:port; "": ranks of one node meet in meeting_folder
  std::string token;       // from the launcher; "": of token_file, or found at the meeting
  std::string token_file;
  std::string meeting_folder;     // a path that all ranks of the job compute alike
  bool hosts_rendezvous = false;  // this rank runs the server
};

// `parent`: process id of the parent, which ranks of one node have in common where nothing else
// names the job. Throws Error for flags and variables that contradict each other or do not suffice.
RankIdentity who_am_i(const LaunchSettings& settings, const Variables& variables, int64_t parent);
RankIdentity who_am_i(const LaunchSettings& settings);  // of this process

// What the launcher adds to the environment of a rank.
std::vector<std::string> rank_variables(Rank rank, int size, const std::string& rendezvous,
                                        const std::string& token);

}  // namespace kinet
