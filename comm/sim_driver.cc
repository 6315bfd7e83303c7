#include "comm/sim_driver.h"

#include <exception>
#include <thread>

#include "comm/local_rendezvous.h"

namespace kinet {
namespace {

constexpr double kSetupTimeout = 60;  // real seconds

std::unique_ptr<Communicator> make_rank(const std::shared_ptr<LocalStore>& store, Rank rank,
                                        int size, const CommOptions& options) {
  auto rendezvous = std::make_unique<LocalRendezvous>(store);
  JoinRequest request;
  request.rank = rank;
  request.size = size;
  request.node = request.host = "virtual";
  World world = rendezvous->join(request, kSetupTimeout);
  return std::make_unique<Communicator>(std::move(world), std::move(rendezvous), options);
}

}  // namespace

bool run_virtual(SimWorld& world, std::span<const std::unique_ptr<Communicator>> ranks,
                 const std::function<bool()>& done, double until) {
  while (!done()) {
    int events = 0;
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (ranks[r] && !world.killed(static_cast<Rank>(r))) events += ranks[r]->progress();
    }
    if (events == 0 && !world.step(until)) return done();
  }
  return true;
}

std::vector<std::unique_ptr<Communicator>> make_virtual_ranks(
    const std::shared_ptr<SimWorld>& world, int size, const CommOptions& options) {
  CommOptions all = options;
  all.transport = "sim";
  all.runtime.sim = world;
  all.progress_thread = all.heartbeats = false;
  const auto store = std::make_shared<LocalStore>(size);
  std::vector<std::unique_ptr<Communicator>> ranks(size);
  std::vector<std::exception_ptr> errors(size);
  std::vector<std::thread> threads;
  for (Rank r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        ranks[r] = make_rank(store, r, size, all);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return ranks;
}

}  // namespace kinet
