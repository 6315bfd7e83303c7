// Ranks with communicators as threads of one test process, over any registered transport.
//
//   run_communicators({"tcp", 4}, [](Communicator& comm) { ... });
//
// The first failure of a rank (a thrown Error) fails the test; its end is a loss for the others, so
// they end too. After `body` a rank says goodbye.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/local_rendezvous.h"
#include "comm/transports/inproc.h"
#include "comm/transports/sim.h"

namespace kinet {

struct CommRun {
  std::string transport = "inproc";
  int size = 2;
  bool progress_thread = false;
  bool heartbeats = true;
  std::string comm;                   // fields of comm_param as text: "heartbeat_timeout: 1"
  std::vector<SimFault> faults = {};  // of transport sim
};

// What the threads of a run share.
class CommWorld {
 public:
  explicit CommWorld(const CommRun& run);

  // The communicator of a rank, connected; blocks until all are there.
  std::unique_ptr<Communicator> connect(Rank rank,
                                        std::function<void(const std::string&)> log = {});

 private:
  const CommRun run_;
  const ParamNode params_;  // outlives the communicators
  std::shared_ptr<LocalStore> store_;
  std::shared_ptr<InprocHub> hub_;
  std::shared_ptr<SimWorld> sim_;  // of transport sim
};

void run_communicators(const CommRun& run, const std::function<void(Communicator&)>& body);

// One thread a rank; the first exception fails the test.
void run_threads(int size, const std::function<void(Rank)>& body);

// Polls until done(); throws with `what` after ten times what is ever needed.
void poll_until(Communicator& comm, const std::string& what, const std::function<bool()>& done);

}  // namespace kinet
