// ctest: labels=unit,core timeout=240
//
// Collectives over transport sim: the bits of an all-reduce are those of inproc, and its virtual
// time is what the formula of the algorithm says (docs/simulator.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>

#include "comm/collectives.h"
#include "comm/sim_driver.h"
#include "src/base/rng.h"
#include "tests/communicator_ranks.h"
#include "tests/sim_ranks.h"

namespace kinet {
namespace {

constexpr double kStart = 1;       // virtual second at which all ranks begin
constexpr double kTimeout = 1000;  // virtual seconds

struct Outcome {
  std::vector<float> sums;  // of rank 0
  double seconds = 0;       // until the last rank was done
};

CollectiveOptions one_segment(Algorithm algorithm) {
  CollectiveOptions o;
  o.algorithm = algorithm;
  o.piece = 8 << 20;
  o.depth = 1;
  o.flat_limit = 0;
  return o;
}

void fill(std::span<float> data, Rank rank) {
  Rng rng(3, RngPurpose::kTest, rank);
  for (float& x : data) x = rng.uniform(-1, 1);
}

// What every rank does. `start`: all wait for this moment; 0: at once.
void reduce(Communicator& comm, Algorithm algorithm, size_t floats, double start, Outcome& out,
            std::mutex& mutex) {
  const auto region = comm.allocate(floats * sizeof(float), "test");
  fill(region->as<float>(), comm.rank());
  Collectives sums(comm, *region, one_segment(algorithm));
  if (start > 0) {
    comm.wait_until([&] { return comm.now() >= start; }, start - comm.now(), "the start");
  }
  const double begin = comm.now();
  sums.wait(sums.all_reduce(0, floats), kTimeout);
  const std::lock_guard lock(mutex);
  out.seconds = std::max(out.seconds, comm.now() - begin);
  if (comm.rank() == 0) out.sums.assign(region->as<float>().begin(), region->as<float>().end());
}

Outcome on_sim(int size, Algorithm algorithm, size_t floats, const SimOptions& network) {
  SimOptions options = network;
  options.threads = true;
  const auto world = std::make_shared<SimWorld>(size, options);
  auto comms = make_virtual_ranks(world, size);
  Outcome out;
  std::mutex mutex;
  run_threads(size, [&](Rank r) {
    reduce(*comms[r], algorithm, floats, kStart, out, mutex);
    comms[r]->leave();
    comms[r].reset();
  });
  return out;
}

Outcome on_inproc(int size, Algorithm algorithm, size_t floats) {
  CommRun run;
  run.size = size;
  Outcome out;
  std::mutex mutex;
  run_communicators(run,
                    [&](Communicator& comm) { reduce(comm, algorithm, floats, 0, out, mutex); });
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(SimCollectives, TheBitsAreThoseOfInproc) {
  SimOptions network = round_figures();
  network.jitter = 1e-4;  // arrival in any order
  network.loss = 0.05;
  network.duplicate = 0.1;
  for (int size = 2; size <= 8; ++size) {
    for (const Algorithm a : {Algorithm::kDirect, Algorithm::kRing, Algorithm::kHalvingDoubling}) {
      const Outcome sim = on_sim(size, a, 10007, network), inproc = on_inproc(size, a, 10007);
      ASSERT_EQ(sim.sums.size(), 10007U);
      EXPECT_TRUE(same_bits(sim.sums, inproc.sums)) << name_of(a) << ", " << size << " ranks";
    }
  }
}

TEST(SimCollectives, TheSameSeedTakesTheSameTime) {
  SimOptions network = round_figures();
  network.jitter = 1e-4;
  const double once = on_sim(5, Algorithm::kDirect, 5000, network).seconds;
  EXPECT_GT(once, 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(on_sim(5, Algorithm::kDirect, 5000, network).seconds, once);
  }
  network.seed = 2;
  EXPECT_NE(on_sim(5, Algorithm::kDirect, 5000, network).seconds, once);
}

// 2 (N - 1) rounds of one piece each; the last puts are known to have left one latency later.
TEST(SimCollectives, ARingTakesWhatTheFormulaSays) {
  const Wire wire = round_figures().link.network;
  for (int size = 2; size <= 8; ++size) {
    const size_t floats = 16U * 1000 * static_cast<size_t>(size);  // pieces of equal size
    const double piece = wire.overhead + 64000 / wire.bandwidth;
    const double due = 2 * (size - 1) * (wire.latency + piece) + wire.latency;
    const Outcome out = on_sim(size, Algorithm::kRing, floats, round_figures());
    EXPECT_NEAR(out.seconds, due, 1e-11) << size << " ranks";
  }
}

// All ranks to all at once, twice: nobody's link carries more than N - 1 pieces a phase.
TEST(SimCollectives, DirectTakesTwoLatencies) {
  const Wire wire = round_figures().link.network;
  for (int size = 2; size <= 8; ++size) {
    const size_t floats = 16U * 1000 * static_cast<size_t>(size);
    const double piece = wire.overhead + 64000 / wire.bandwidth;
    const double due = 2 * (wire.latency + (size - 1) * piece) + wire.latency;
    const Outcome out = on_sim(size, Algorithm::kDirect, floats, round_figures());
    EXPECT_NEAR(out.seconds, due, 1e-11) << size << " ranks";
  }
}

}  // namespace
}  // namespace kinet
