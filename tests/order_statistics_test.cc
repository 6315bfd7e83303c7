// What waiting costs on a virtual cluster: the time of an update of k-sync with cancellation, and
// how many more updates asynchronous training makes than synchronous training, beside tables that
// another program made from the clocks alone. Through all of run_virtual(), over a network that
// takes no time: what differs from the tables is the simulator's own.
//
// Clocks (mean 1): GAMMA deviates by 0.1; MACHINES draws 16 machines that differ by 0.6, anew for
// each cluster; EXPONENTIAL. Reference of the clocks: Ali et al., HCW 2000; of k-sync: Dutta et
// al., AISTATS 2018; of the ratio: Hakimi et al., arXiv 1907.11612 (DANA).
// ctest: labels=unit timeout=300
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/sim/quadratic_problem.h"
#include "src/sim/virtual_cluster.h"
#include "tests/data_files.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

using Clock = StepSettings::Clock;

// A cluster without costs, a quadratic of one parameter, a synchronisation model.
class Waiting {
 public:
  Waiting(Clock clock, const std::string& sync, int workers, int64_t end, int64_t test_interval = 0)
      : clock_(clock) {
    const std::string net =
        "layer { name: 'nothing' type: 'Input' top: 'x' input_param { shape { dim: 1 } } }";
    spec_.config = SolverConfig::parse(
        solver_text(net, fmt::format("base_lr: 0.001 test_initialization: false test_interval: {} "
                                     "max_iter: {} sync_param {{ {} }}",
                                     test_interval, end, sync)),
        "test solver");
    spec_.cluster = ClusterProfile::load(
        folder_.write("c.prototxt",
                      "name: 'c' source: 'test' compute { clock: CONSTANT mean: 1 } "
                      "network { preset: ideal } "
                      "server { per_push_us: 0 memory_gbytes: 1e9 }"),
        0);
    spec_.workers = workers;
    spec_.end = end;
    spec_.measure_gap = false;
  }
  VirtualResult on_cluster(uint64_t seed) {
    StepSettings times;
    times.clock = clock_;
    times.mean = 1;
    spec_.cluster.steps = make_step_times(times, seed);
    spec_.seed = seed;
    QuadraticSettings one;
    one.dimension = 1;
    one.noise = 0;
    QuadraticProblem problem(one, seed);
    return run_virtual(problem, spec_, nullptr);
  }

 private:
  Clock clock_;
  TemporaryFolder folder_;
  VirtualSpec spec_;
};

// Mean over clusters of the seconds of an update.
double update_seconds(Clock clock, int workers, int k, int clusters, int rounds) {
  Waiting waiting(clock, fmt::format("model: 'k_sync' variant: K_SYNC k: {}", k), workers, rounds);
  double sum = 0;
  for (int c = 0; c < clusters; ++c) sum += waiting.on_cluster(100 + c).seconds / rounds;
  return sum / clusters;
}

constexpr int kWorkers = 16;
constexpr std::array kWaitedFor{1, 2, 4, 8, 12, 14, 15, 16};

// `clusters` and `rounds` such that the mean is known to within 0.8 % (one standard error).
void expect_order_statistics(const char* name, Clock clock, const std::array<double, 8>& table,
                             int clusters, const std::array<int, 8>& rounds) {
  fmt::print("{:12}", name);
  std::string used;
  for (size_t i = 0; i < table.size(); ++i) {
    const int k = kWaitedFor[i];
    const double seconds = update_seconds(clock, kWorkers, k, clusters, rounds[i]);
    fmt::print(" | {:.3f} ({:.3f})", seconds, table[i]);
    used += fmt::format(" | {:.1f}", k / seconds);
    EXPECT_NEAR(seconds, table[i], 0.02 * table[i]) << name << ", k = " << k;
  }
  fmt::print("\n{:12}{}\n", "  used", used);
}

TEST(OrderStatistics, HomogeneousMachines) {
  expect_order_statistics("hom", Clock::kGamma,
                          {0.832, 0.874, 0.923, 0.989, 1.055, 1.099, 1.131, 1.184}, 1,
                          {500, 500, 500, 500, 500, 500, 500, 500});
}

TEST(OrderStatistics, MachinesThatDiffer) {
  expect_order_statistics("het", Clock::kMachines,
                          {0.245, 0.359, 0.530, 0.848, 1.254, 1.581, 1.843, 2.345}, 4000,
                          {2, 2, 2, 2, 2, 2, 2, 2});
}

TEST(OrderStatistics, ExponentialTimes) {
  expect_order_statistics("exponential", Clock::kExponential,
                          {0.063, 0.129, 0.277, 0.662, 1.297, 1.883, 2.380, 3.387}, 1,
                          {16000, 9000, 6000, 4000, 4000, 4000, 4000, 4000});
}

// Updates a second (a push is one) of asynchronous training over gradients a second of synchronous
// training, on one cluster. Asynchronous: once the common start is forgotten.
double ratio(Waiting& async, Waiting& sync, int workers, uint64_t seed) {
  const VirtualResult a = async.on_cluster(seed), s = sync.on_cluster(seed);
  const VirtualTest &from = a.tests.front(), &to = a.tests.back();
  const double pushes = (to.iteration - from.iteration) / (to.seconds - from.seconds);
  return pushes / (static_cast<double>(s.rounds * workers) / s.seconds);
}

double median_ratio(Clock clock, int workers, int clusters, int steps) {
  const int64_t pushes = int64_t{steps} * workers;
  Waiting async(clock, "model: 'asgd' push_weight: 1", workers, 3 * pushes, pushes);
  Waiting sync(clock, "model: 'bsp'", workers, steps);
  std::vector<double> ratios;
  for (int c = 0; c < clusters; ++c) ratios.push_back(ratio(async, sync, workers, 500 + c));
  const auto middle = ratios.begin() + clusters / 2;
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

// DANA's table.
TEST(OrderStatistics, AsynchronousOverSynchronousTraining) {
  struct Row {
    int workers;
    double hom, het;
    int clusters;
  };
  fmt::print("async / sync: hom, het (median over clusters)\n");
  for (const Row& row :
       {Row{2, 1.056, 1.43, 4000}, Row{4, 1.104, 2.08, 3000}, Row{8, 1.147, 2.74, 1500},
        Row{16, 1.185, 3.36, 1200}, Row{24, 1.206, 3.70, 1000}, Row{32, 1.218, 3.93, 800},
        Row{48, 1.236, 4.29, 500}, Row{64, 1.250, 4.55, 500}}) {
    const double hom = median_ratio(Clock::kGamma, row.workers, 1, 400);
    const int steps = row.workers < 16 ? 6 : 4;
    const double het = median_ratio(Clock::kMachines, row.workers, row.clusters, steps);
    fmt::print("{:3} | {:.3f} ({:.3f}) | {:.2f} ({:.2f})\n", row.workers, hom, row.hom, het,
               row.het);
    EXPECT_NEAR(hom, row.hom, 0.02 * row.hom) << row.workers;
    EXPECT_NEAR(het, row.het, 0.03 * row.het) << row.workers;
  }
}

}  // namespace
}  // namespace kinet
