#include "tests/sync_ranks.h"

#include <thread>

#include "src/base/check.h"
#include "src/sync/bsp.h"

namespace kinet {
namespace {

void work(const std::string& text, const SyncRun& run, SolverOptions options, Rank rank,
          CommWorld& world, SyncRank& out, const std::function<void(Rank, TestRun&)>& before) {
  try {
    const std::unique_ptr<Communicator> comm = world.connect(rank);
    options.servers = run.servers;
    options.server = rank < run.servers ? rank : -1;
    options.worker = std::max(0, rank - run.servers);
    options.workers = run.workers;
    options.now = [c = comm.get()] { return c->now(); };
    if (comm->virtual_time()) {
      const double seconds = run.step_seconds[options.worker % run.step_seconds.size()];
      options.step_seconds = [seconds] { return seconds; };
    }
    out.run = std::make_unique<TestRun>(text, options);
    std::unique_ptr<Bsp> bsp;
    if (run.servers > 0) {
      out.run->solver->attach(*comm);
    } else {
      BspOptions bsp_options;
      bsp_options.bucket_bytes = run.bucket_bytes;
      bsp = std::make_unique<Bsp>(*comm, out.run->solver->gradient_floats(),
                                  out.run->solver->buffer_floats(), bsp_options);
      out.run->solver->attach(*bsp);
    }
    if (before) before(rank, *out.run);
    if (run.with_communicator) run.with_communicator(rank, *out.run, *comm);
    try {
      out.end = out.run->run();
      comm->leave();
    } catch (const Error& error) {
      comm->abort(error.what());
      out.error = error.what();
    }
    out.run->solver->detach();
  } catch (const Error& error) {
    out.error = error.what();
  }
}

}  // namespace

std::vector<SyncRank> run_sync(const std::string& text, const SyncRun& run,
                               const SolverOptions& options,
                               const std::function<void(Rank, TestRun&)>& before) {
  CommRun comm;
  comm.transport = run.transport;
  comm.size = run.servers + run.workers;
  comm.progress_thread = run.transport != "sim";
  comm.heartbeats = false;  // a sanitizer on a busy machine is slow
  comm.comm = run.comm;
  comm.faults = run.faults;
  CommWorld world(comm);
  std::vector<SyncRank> out(comm.size);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < comm.size; ++rank) {
    threads.emplace_back([&, rank] { work(text, run, options, rank, world, out[rank], before); });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

}  // namespace kinet
