#include "tests/communicator_ranks.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

#include "comm/comm_fields.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kTimeout = 60;  // seconds

ParamNode parse(const std::string& text) {
  Diagnostics diagnostics;
  ParamNode root = parse_prototxt(text, "comm_param", diagnostics);
  diagnostics.throw_if_any();
  return root;
}

}  // namespace

CommWorld::CommWorld(const CommRun& run)
    : run_(run),
      params_(parse(run.comm)),
      store_(std::make_shared<LocalStore>(run.size)),
      hub_(std::make_shared<InprocHub>()) {
  if (run.transport != "sim") return;
  SimOptions options;
  options.threads = true;
  options.faults = run.faults;
  sim_ = std::make_shared<SimWorld>(run.size, options);
}

std::unique_ptr<Communicator> CommWorld::connect(Rank rank,
                                                 std::function<void(const std::string&)> log) {
  auto rendezvous = std::make_unique<LocalRendezvous>(store_);
  JoinRequest request;
  request.rank = rank;
  request.size = run_.size;
  request.node = node_id();
  request.host = "test";
  request.process = 100 + rank;
  World world = rendezvous->join(request, kTimeout);
  CommOptions options;
  options.params = Params(&params_, &comm_fields());
  options.transport = run_.transport;
  options.progress_thread = run_.progress_thread;
  options.heartbeats = run_.heartbeats;
  options.runtime.inproc = hub_;
  options.runtime.sim = sim_;
  options.log = std::move(log);
  return std::make_unique<Communicator>(std::move(world), std::move(rendezvous), options);
}

void run_threads(int size, const std::function<void(Rank)>& body) {
  std::mutex mutex;
  std::string failure;
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (failure.empty()) failure = "rank " + std::to_string(rank) + ": " + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!failure.empty()) ADD_FAILURE() << failure;
}

void run_communicators(const CommRun& run, const std::function<void(Communicator&)>& body) {
  CommWorld world(run);
  run_threads(run.size, [&](Rank rank) {
    const std::unique_ptr<Communicator> comm = world.connect(rank);
    body(*comm);
    comm->leave();
  });
}

void poll_until(Communicator& comm, const std::string& what, const std::function<bool()>& done) {
  comm.wait_until(done, kTimeout, what);
}

}  // namespace kinet
