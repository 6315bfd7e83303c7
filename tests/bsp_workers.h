// Workers of an all-reduce run as threads of one process, over inproc, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/local_rendezvous.h"
#include "comm/transports/inproc.h"
#include "src/net/device.h"
#include "src/sync/bsp.h"
#include "tests/solver_helpers.h"

namespace kinet {

// One worker as a test sees it: its solver attached to the others, and what it ended with.
struct BspWorker {
  std::unique_ptr<TestRun> run;
  FinishRecord end;
  std::string error;
};

class BspWorkersTest : public SolverTest {
 protected:
  // Runs `workers` solvers on the same file; `before` may hook into a worker before it starts.
  std::vector<BspWorker> train(const std::string& text, int workers,
                               const std::function<void(int, TestRun&)>& before = nullptr) {
    std::vector<BspWorker> out(workers);
    const auto store = std::make_shared<LocalStore>(workers);
    const auto hub = std::make_shared<InprocHub>();
    std::vector<std::thread> threads;
    threads.reserve(workers);
    for (int r = 0; r < workers; ++r) {
      threads.emplace_back([&, r] { work(text, r, store, hub, out[r], before); });
    }
    for (std::thread& t : threads) t.join();
    return out;
  }

  std::function<std::shared_ptr<Device>()> open_device_;  // one for each worker; null: the CPU
  BspOptions sync_;

 private:
  void work(const std::string& text, int rank, const std::shared_ptr<LocalStore>& store,
            const std::shared_ptr<InprocHub>& hub, BspWorker& out,
            const std::function<void(int, TestRun&)>& before) {
    try {
      SolverOptions options = options_;
      options.worker = rank;
      options.workers = store->size();
      if (open_device_) options.device = open_device_();
      out.run = std::make_unique<TestRun>(text, options);
      auto rendezvous = std::make_unique<LocalRendezvous>(store);
      JoinRequest request;
      request.rank = rank;
      request.size = options.workers;
      request.node = node_id();
      const World world = rendezvous->join(request, 30);
      CommOptions comm_options;
      comm_options.heartbeats = false;  // a sanitizer on a busy machine is slow
      comm_options.runtime.inproc = hub;
      Communicator comm(world, std::move(rendezvous), comm_options);
      Bsp bsp(comm, out.run->solver->gradient_floats(), out.run->solver->buffer_floats(), sync_);
      out.run->solver->attach(bsp);
      if (before) before(rank, *out.run);
      try {
        out.end = out.run->run();
        comm.leave();
      } catch (const Error& error) {
        comm.abort(error.what());
        throw;
      }
    } catch (const Error& error) {
      out.error = error.what();
    }
  }
};

inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace kinet
