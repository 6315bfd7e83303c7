// ctest: labels=unit,core timeout=120
//
// The virtual cluster: what its clock says against formulas, its arithmetic against recurrences and
// against the other way to simulate, that lanes change no bit, deaths and joins, and that every
// registered model comes down on a quadratic.
#include "src/sim/virtual_cluster.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/sim/net_problem.h"
#include "src/sim/quadratic_problem.h"
#include "src/sync/sync.h"
#include "tests/data_files.h"
#include "tests/solver_helpers.h"
#include "tests/sync_ranks.h"

namespace kinet {
namespace {

class VirtualClusterTest : public SolverTest {
 protected:
  // A solver whose nets nobody looks at.
  std::shared_ptr<const SolverConfig> config(const std::string& sync, int iterations,
                                             const std::string& more = "") const {
    return SolverConfig::parse(
        solver_text(
            net(), fmt::format(
                       "{} momentum: 0.9 test_interval: 100000 max_iter: {} {} sync_param {{ {} }}",
                       more.find("base_lr") == std::string::npos ? "base_lr: 0.1" : "", iterations,
                       more, sync)),
        "test solver");
  }
  ClusterProfile cluster(const std::string& text) const {
    return ClusterProfile::load(folder_.write("cluster.prototxt", text), 7);
  }
  VirtualSpec spec(const std::string& sync, int workers, int iterations,
                   const std::string& profile = kIdeal) const {
    VirtualSpec s;
    s.config = config(sync, iterations);
    s.cluster = cluster(profile);
    s.workers = workers;
    s.end = iterations;
    s.seed = 7;
    return s;
  }
  static constexpr const char* kIdeal =
      "name: 'ideal' source: 'test' compute { clock: CONSTANT mean: 1 } network { preset: ideal } "
      "server { per_push_us: 0 memory_gbytes: 1e9 }";
};

QuadraticSettings small() {
  QuadraticSettings s;
  s.dimension = 64;
  s.condition = 20;
  s.noise = 0.1;
  return s;
}

TEST_F(VirtualClusterTest, BspIsSgdOnTheMeanGradient) {
  QuadraticProblem problem(small(), 7);
  const VirtualResult r = run_virtual(problem, spec("model: 'bsp'", 3, 40), nullptr);
  std::vector<float> w(64), v(64, 0.0F);
  problem.start(w, {});
  for (int64_t i = 0; i < 40; ++i) {
    std::vector<float> mean(64, 0.0F), g(64);
    for (int worker = 0; worker < 3; ++worker) {
      problem.gradient(0, w, {}, worker, 3, i, g);
      for (size_t j = 0; j < 64; ++j) mean[j] += g[j] / 3;
    }
    for (size_t j = 0; j < 64; ++j) {
      v[j] = 0.9F * v[j] + 0.1F * mean[j];
      w[j] -= v[j];
    }
  }
  for (size_t j = 0; j < 64; ++j) EXPECT_NEAR(r.weights[j], w[j], 1e-5);
  EXPECT_EQ(r.rounds, 40);
  EXPECT_EQ(r.samples, 120);
  EXPECT_NEAR(r.seconds, 40, 1e-9);  // a second each, and nothing else
}

// The same solver file, once by ranks that talk and once by numbers.
TEST_F(VirtualClusterTest, SynchronousFormsHaveTheBitsOfRealRanks) {
  for (const char* sync :
       {"model: 'bsp' servers: 1", "model: 'momentum_k_sync' k_rule: 'fixed'",
        "model: 'local_sgd' local_steps: 2", "model: 'k_sync' k: 3",
        "model: 'sync_easgd' easgd_level: 1", "model: 'sync_easgd' easgd_level: 3",
        "model: 'bsp' servers: 1 compress: TOPK compress_ratio: 0.1",
        "model: 'bsp' servers: 1 compress: SIGN", "model: 'bsp' servers: 1 compress: TERNARY",
        "model: 'local_sgd' local_steps: 2 compress: SIGN",
        "model: 'sync_easgd' easgd_level: 3 compress: FP16"}) {
    SCOPED_TRACE(sync);
    const std::string text =
        solver_text(net(), fmt::format("base_lr: 0.05 momentum: 0.9 max_iter: 20 random_seed: 7 {} "
                                       "sync_param {{ {} }}",
                                       kNoSnapshot, sync));
    SyncRun real;
    real.workers = 3;
    const auto ranks = run_sync(text, real, options_);
    for (const SyncRank& r : ranks) ASSERT_EQ(r.error, "");
    const auto expected = ranks[0].run->solver->train_net().parameter_arena();
    VirtualSpec s = spec("model: 'bsp'", 3, 20);
    s.config = SolverConfig::parse(text, "test solver");
    NetProblemOptions options;
    options.seed = 7;
    options.workers = 3;
    NetProblem problem(s.config, options);
    const VirtualResult r = run_virtual(problem, s, nullptr);
    EXPECT_EQ(r.weights, std::vector<float>(expected.begin(), expected.end()));
  }
}

TEST_F(VirtualClusterTest, LanesChangeNoBit) {
  const std::string machines =
      "name: 'm' source: 'test' compute { clock: MACHINES mean: 0.01 } network { preset: qdr } ";
  for (const char* sync :
       {"model: 'asp'", "model: 'momentum_k_sync'", "model: 'dana_slim'",
        "model: 'k_sync' variant: K_SYNC k: 2", "model: 'sapus'",
        "model: 'sync_easgd' easgd_level: 3", "model: 'asp' compress: TOPK compress_ratio: 0.2",
        "model: 'k_sync' variant: K_SYNC k: 2 compress: SIGN",
        "model: 'sapus' compress: TERNARY"}) {
    SCOPED_TRACE(sync);
    QuadraticProblem problem(small(), 7);
    VirtualSpec s = spec(sync, 5, 60, machines);
    const VirtualResult one = run_virtual(problem, s, nullptr);
    s.lanes = 3;
    const VirtualResult three = run_virtual(problem, s, nullptr);
    EXPECT_EQ(one.weights, three.weights);
    EXPECT_EQ(one.seconds, three.seconds);
    EXPECT_EQ(one.bytes_up, three.bytes_up);
  }
}

// n pushes meet at the server's link, one after the other, and n answers leave it.
TEST_F(VirtualClusterTest, BytesTakeTheirTime) {
  QuadraticSettings s = small();
  s.dimension = 25000;  // 100 KB: 1 ms on this link
  QuadraticProblem problem(s, 7);
  VirtualSpec v = spec("model: 'bsp' servers: 1", 4, 10,
                       "name: 'n' source: 'test' compute { clock: CONSTANT mean: 1 } "
                       "network { latency: 100 bandwidth: 0.8 } "
                       "server { per_push_us: 0 memory_gbytes: 1e9 }");
  const VirtualResult r = run_virtual(problem, v, nullptr);
  // Ten times answers, a step and pushes; the first worker begins while the others' answers leave.
  EXPECT_NEAR(r.seconds, 10 * (1 + 2 * (1e-4 + 4e-3)), 10 * 3e-3 + 1e-6);
  EXPECT_GT(r.seconds, 10 * (1 + 2e-4 + 5e-3) - 1e-6);
  EXPECT_EQ(r.bytes_up, 10 * 4 * 1e5);
}

// 4 workers that push each step would move 205 kB a second, both ways together.
TEST_F(VirtualClusterTest, SapusKeepsItsLinkBudget) {
  const std::string machines =
      "name: 'm' source: 'test' compute { clock: GAMMA mean: 0.01 } network { preset: fdr } ";
  const std::string at_the_bound =
      "model: 'sapus' sapus_delta: 0 sapus_server_share: 0 sapus_exchange_share: 0 ";
  QuadraticProblem problem(small(), 7);
  const auto carried = [&](const std::string& budget) {
    const VirtualResult r =
        run_virtual(problem, spec(at_the_bound + budget, 4, 400, machines), nullptr);
    return (r.bytes_up + r.bytes_down) / r.seconds;
  };
  EXPECT_GT(carried(""), 180e3);
  const double budget = 0.0005 * 1e9 / 8;
  EXPECT_LT(carried("sapus_link_budget: 0.0005"), 1.05 * budget);
  // Nine tenths are aimed at, in whole steps, from the longest interval on.
  EXPECT_GT(carried("sapus_link_budget: 0.0005"), 0.6 * budget);
}

// Two servers, of 4992 and 5008 floats; 1 / 1e9 of a second to read or write one.
TEST_F(VirtualClusterTest, CompressedPushesTakeTheirBytesAndTheirTime) {
  QuadraticSettings s = small();
  s.dimension = 10000;
  struct Row {
    const char* codec;
    double bytes;  // of a push
    int passes;    // of a worker
  };
  for (const Row& row :
       {Row{"TOPK compress_ratio: 0.01 compress_warmup: 4", 0, 9},
        Row{"SIGN", 4 + 156 * 4 + 4 + 157 * 4, 6}, Row{"FP16", 4 + 9984 + 4 + 10016, 2}}) {
    SCOPED_TRACE(row.codec);
    QuadraticProblem problem(s, 7);
    VirtualSpec v = spec(std::string("model: 'bsp' servers: 2 compress: ") + row.codec, 3, 10,
                         "name: 'n' source: 'test' compute { clock: CONSTANT mean: 1 } "
                         "network { preset: ideal } server { per_push_us: 0 memory_gbytes: 4 }");
    const VirtualResult r = run_virtual(problem, v, nullptr);
    const double topk = 3 * 8 * (4 * (1248 + 1252.0) + 4 * (312 + 313) + 2 * (78 + 79));
    EXPECT_EQ(r.bytes_up, row.bytes > 0 ? 10 * 3 * row.bytes : topk) << r.bytes_up / 30;
    EXPECT_EQ(r.bytes_down, 10 * 3 * 4e4);
    VirtualSpec plain = spec("model: 'bsp' servers: 2", 3, 10);
    plain.cluster = v.cluster;
    const double without = run_virtual(problem, plain, nullptr).seconds;
    // Encoded by each worker; three pushes decoded by the servers, each of its half. The run ends
    // before the last of these.
    EXPECT_NEAR(r.seconds - without, 1e-5 * (10 * row.passes + 9 * 3.0 / 2), 1e-9);
  }
}

// With everything sent at once, corrected momentum is none: the rule of asp without it.
TEST_F(VirtualClusterTest, ACorrectedMomentumIsNotTheServersAsWell) {
  QuadraticProblem problem(small(), 7);
  VirtualSpec s = spec("model: 'asp'", 4, 40);
  s.config = config("model: 'asp' compress: TOPK compress_ratio: 1", 40);
  const VirtualResult with = run_virtual(problem, s, nullptr);
  s.config = SolverConfig::parse(
      solver_text(net(), "base_lr: 0.1 momentum: 0 max_iter: 40 sync_param { model: 'asp' }"),
      "test solver");
  const VirtualResult without = run_virtual(problem, s, nullptr);
  ASSERT_EQ(with.weights.size(), without.weights.size());
  for (size_t i = 0; i < with.weights.size(); ++i) {
    EXPECT_NEAR(with.weights[i], without.weights[i], 1e-6);
  }
}

// Must hold for the clock that theory mostly takes: waiting for k of N with cancellation lasts
// (H_N - H_(N-k)) mean steps.
TEST_F(VirtualClusterTest, KSyncTakesWhatOrderStatisticsSay) {
  QuadraticSettings s = small();
  s.dimension = 4;
  for (const int k : {1, 4, 8}) {
    QuadraticProblem problem(s, 7);
    VirtualSpec v = spec(fmt::format("model: 'k_sync' variant: K_SYNC k: {}", k), 8, 6000,
                         "name: 'e' source: 'test' compute { clock: EXPONENTIAL mean: 1 } "
                         "network { preset: ideal } server { per_push_us: 0 memory_gbytes: 1e9 }");
    v.config =
        config(fmt::format("model: 'k_sync' variant: K_SYNC k: {}", k), 6000, "weight_decay: 0");
    const VirtualResult r = run_virtual(problem, v, nullptr);
    double expected = 0;
    for (int i = 0; i < k; ++i) expected += 1.0 / (8 - i);
    EXPECT_NEAR(r.seconds / 6000 / expected, 1, 0.03) << k;
  }
}

TEST_F(VirtualClusterTest, WorkersLeaveAndJoin) {
  QuadraticProblem problem(small(), 7);
  for (const char* sync : {"model: 'bsp'", "model: 'momentum_k_sync'", "model: 'dana_zero'"}) {
    SCOPED_TRACE(sync);
    const VirtualResult r =
        run_virtual(problem,
                    spec(sync, 4, 50,
                         std::string(kIdeal) +
                             " event { at: 10.5 worker: 2 kind: LEAVE } event { at: 20.5 "
                             "worker: 2 kind: JOIN } event { at: 30.25 worker: 0 kind: LEAVE }"),
                    nullptr);
    EXPECT_GE(r.iteration, 50) << r.reason;
    EXPECT_FALSE(r.diverged);
    EXPECT_LT(r.tests.back().loss, 0.2 * r.tests.front().loss + 0.9);
  }
}

// It begins at the center, and does not pull it back to where the lost worker was.
TEST_F(VirtualClusterTest, ASuccessorKnowsNothingOfTheOneBefore) {
  QuadraticSettings quick = small();
  quick.condition = 2;
  quick.noise = 0;
  QuadraticProblem problem(quick, 7);
  const VirtualResult r = run_virtual(
      problem,
      spec("model: 'async_easgd'", 2, 202,
           std::string(kIdeal) + " event { at: 1.5 worker: 1 kind: LEAVE } event { at: 200.5 "
                                 "worker: 1 kind: JOIN }"),
      nullptr);
  std::vector<float> start(64);
  problem.start(start, {});
  EXPECT_LT(r.tests.back().loss, problem.test(0, start, {}).loss / 1000);
}

TEST_F(VirtualClusterTest, TheLastWorkersDeathEndsTheRun) {
  QuadraticProblem problem(small(), 7);
  const VirtualResult r = run_virtual(
      problem,
      spec("model: 'asp'", 1, 50, std::string(kIdeal) + " event { at: 5.5 worker: 0 kind: LEAVE }"),
      nullptr);
  EXPECT_EQ(r.reason, "no worker is left");
  EXPECT_EQ(r.iteration, 5);
}

// floor is 1: at the minimum the loss is that.
TEST_F(VirtualClusterTest, EveryModelComesDown) {
  const std::string machines =
      "name: 'm' source: 'test' compute { clock: MACHINES mean: 0.01 } network { preset: fdr } ";
  for (const std::string& name : SyncRegistry::instance().names()) {
    SCOPED_TRACE(name);
    QuadraticProblem problem(small(), 7);
    VirtualSpec s = spec(fmt::format("model: '{}'", name), 4, 400, machines);
    s.config = config(fmt::format("model: '{}'", name), 400, "warmup_iter: 20 base_lr: 0.02");
    const VirtualResult r = run_virtual(problem, s, nullptr);
    EXPECT_FALSE(r.diverged) << r.reason;
    EXPECT_GE(r.iteration, 400) << r.reason;
    const double first = r.tests.front().loss - 1, last = r.tests.back().loss - 1;
    EXPECT_LT(last, 0.7 * first);
    EXPECT_GT(r.seconds, 0);
  }
}

TEST_F(VirtualClusterTest, WhatDivergesIsNamed) {
  QuadraticSettings q = small();
  q.curvature = 1e6;
  QuadraticProblem problem(q, 7);
  const VirtualResult r = run_virtual(problem, spec("model: 'asp'", 4, 400), nullptr);
  EXPECT_TRUE(r.diverged);
  EXPECT_NE(r.reason.find("not finite"), std::string::npos);
}

}  // namespace
}  // namespace kinet
