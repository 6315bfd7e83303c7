// Every synchronisation model trains a small net to the same loss, over every transport; and the
// laws that say which models give the same weights.
// ctest: labels=unit,core,threads timeout=600
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/sync_ranks.h"

namespace kinet {
namespace {

struct Case {
  std::string name, sync;
  double rate = 0.05;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"bsp", "model: 'bsp' servers: 1"},
      {"bsp of two servers", "model: 'bsp' servers: 2"},
      {"asp", "model: 'asp'"},
      {"ssp", "model: 'ssp' bound: 2"},
      {"k_sync", "model: 'k_sync' variant: K_SYNC"},
      {"k_batch_sync", "model: 'k_sync' variant: K_BATCH_SYNC k: 3"},
      {"k_async", "model: 'k_sync' variant: K_ASYNC"},
      {"k_batch_async", "model: 'k_sync' variant: K_BATCH_ASYNC k: 2"},
      {"backup_workers", "model: 'backup_workers'"},
      {"local_sgd", "model: 'local_sgd' local_steps: 4"},
      {"ada_sync", "model: 'ada_sync' k: 2 ada_interval: 0.05"},
      {"lookahead", "model: 'momentum_k_sync'"},
      {"lookahead of two servers", "model: 'momentum_k_sync' servers: 2"},
      {"ordered", "model: 'momentum_k_sync' absorb: ORDERED k_rule: 'fixed' k: 2"},
      {"momentum", "model: 'momentum_k_sync' absorb: MOMENTUM k_rule: 'fixed' k: 2"},
      {"staleness", "model: 'momentum_k_sync' absorb: STALENESS k_rule: 'fixed' k: 2"},
      {"drop", "model: 'momentum_k_sync' absorb: DROP k_rule: 'fixed' k: 2"},
      {"asgd", "model: 'asgd'", 0.5},  // no momentum
      {"nag_asgd", "model: 'nag_asgd'"},
      {"multi_asgd", "model: 'multi_asgd'"},
      {"lwp", "model: 'lwp'"},
      {"dc_asgd", "model: 'dc_asgd'"},
      {"dc_asgd, adaptive", "model: 'dc_asgd' dc_adaptive: true"},
      {"dana_zero", "model: 'dana_zero'"},
      {"dana_zero of two servers", "model: 'dana_zero' servers: 2"},
      {"dana_slim", "model: 'dana_slim'"},
      {"dana_dc", "model: 'dana_dc'"},
      {"staleness_aware", "model: 'staleness_aware'"},
      {"gap_aware", "model: 'gap_aware'"},
      {"yellowfin", "model: 'yellowfin'"},
      {"post_local_sgd", "model: 'post_local_sgd' local_steps: 4"},
      {"ada_comm", "model: 'ada_comm' local_steps: 4 ada_interval: 0.05"},
      {"qsr", "model: 'qsr' local_steps: 4"},
      {"sapus", "model: 'sapus' sapus_most_steps: 4 sapus_server_share: 0 sapus_exchange_share: 0"},
      {"easgd", "model: 'easgd' easgd_momentum: true"},
      {"async_easgd", "model: 'async_easgd' easgd_momentum: true"},
      {"async_measgd of two steps", "model: 'async_measgd' easgd_period: 2"},
      {"hogwild_easgd", "model: 'hogwild_easgd' easgd_momentum: true"},
      {"sync_easgd", "model: 'sync_easgd' easgd_momentum: true"},
      {"sync_easgd of two servers", "model: 'sync_easgd' easgd_momentum: true servers: 2"},
      {"sync_easgd, level 1", "model: 'sync_easgd' easgd_level: 1 easgd_momentum: true"},
      {"async_sgd", "model: 'async_sgd'", 0.15},  // no momentum
      {"async_msgd", "model: 'async_msgd' push_weight: 0.25"},
      {"hogwild_sgd", "model: 'hogwild_sgd'", 0.15}};
  return all;
}

class SyncModelsTest : public SolverTest {
 protected:
  std::string text(const std::string& sync, int iterations = 60, const std::string& more = "",
                   double rate = 0.05) const {
    return solver_text(net(),
                       fmt::format("base_lr: {} momentum: 0.9 max_iter: {} display: 10 "
                                   "test_interval: 30 random_seed: 5 {} {} sync_param {{ {} }}",
                                   rate, iterations, kNoSnapshot, more, sync));
  }
  static int servers_of(const std::string& sync) {
    return sync.find("servers: 2") != std::string::npos ? 2 : 1;
  }
};

// Sanitizers are slow: there, one number of workers.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::array kWorkers{3};
#else
constexpr std::array kWorkers{2, 3, 4};
#endif

class EveryModel : public SyncModelsTest, public ::testing::WithParamInterface<std::string> {};

// They stop at the same iteration with the loss that bulk-synchronous training has.
TEST_P(EveryModel, EndsInTheSameLossBand) {
  const bool virtual_time = GetParam() == "sim";
  for (const Case& c : cases()) {
    for (const int workers : kWorkers) {
      SCOPED_TRACE(fmt::format("{} with {} workers", c.name, workers));
      SyncRun run;
      run.transport = GetParam();
      run.servers = servers_of(c.sync);
      run.workers = workers;
      run.step_seconds = {0.01, 0.013, 0.03};
      const auto ranks = run_sync(text(c.sync, 60, "", c.rate), run, options_);
      for (const SyncRank& r : ranks) ASSERT_EQ(r.error, "");
      EXPECT_GE(ranks[0].end.iteration, 60);
      EXPECT_LT(ranks[0].end.iteration, 64);
      // The loss of the last step is one worker's. In real time that may be one that the system let
      // wait: a worker of elastic averaging is then behind with weights of its own.
      if (virtual_time) {
        EXPECT_LT(ranks[0].end.loss, 0.6);
      }
      ASSERT_EQ(ranks[0].run->seen.tests.size(), 3u);
      EXPECT_EQ(ranks[0].run->seen.tests.back().items, 7);
      EXPECT_LT(ranks[0].run->seen.tests.back().loss, 0.6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, EveryModel, ::testing::Values("inproc", "shm", "tcp", "sim"),
                         [](const auto& test) { return test.param; });

std::vector<float> weights_after(const std::vector<SyncRank>& ranks) {
  for (const SyncRank& r : ranks) EXPECT_EQ(r.error, "");
  const auto arena = ranks[0].run->solver->train_net().parameter_arena();
  return {arena.begin(), arena.end()};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / size);
}

// Rule 15 of distributed training.
TEST_F(SyncModelsTest, SynchronousFormsAgreeBitForBit) {
  const std::string fixed = "model: 'momentum_k_sync' k_rule: 'fixed' ";
  for (const int workers : {2, 3, 4}) {
    SCOPED_TRACE(workers);
    SyncRun all_reduce;
    all_reduce.servers = 0;
    all_reduce.workers = workers;
    const auto expected = weights_after(run_sync(text("model: 'bsp'"), all_reduce, options_));
    SyncRun run;
    run.workers = workers;
    const std::string k = fmt::format("k: {}", workers);
    for (const std::string& sync :
         {std::string("model: 'bsp' servers: 1"), fixed + "absorb: ORDERED " + k,
          fixed + "absorb: DROP " + k, fixed + "absorb: MOMENTUM " + k, "model: 'k_sync' " + k}) {
      SCOPED_TRACE(sync);
      EXPECT_EQ(weights_after(run_sync(text(sync), run, options_)), expected);
    }
  }
}

// Sums that begin during backward are those that begin after it, whatever the size of a bucket;
// iter_size lets only the last micro-batch begin them.
TEST_F(SyncModelsTest, OverlapChangesNoBit) {
  for (const std::string more : {"iter_size: 1", "iter_size: 2"}) {
    SyncRun run;
    run.servers = 0;
    run.workers = 3;
    const auto expected = weights_after(run_sync(text("model: 'bsp'", 20, more), run, options_));
    for (const size_t bytes : {64, 100, 1000000}) {
      run.bucket_bytes = bytes;
      EXPECT_EQ(weights_after(run_sync(text("model: 'bsp'", 20, more), run, options_)), expected)
          << bytes << ' ' << more;
    }
    SyncRun served;
    served.workers = 3;
    for (const std::string comm : {"overlap: false", "bucket_bytes: 64", "bucket_bytes: 1000000"}) {
      const std::string with = more + " comm_param { " + comm + " }";
      EXPECT_EQ(
          weights_after(run_sync(text("model: 'bsp' servers: 1", 20, with), served, options_)),
          expected)
          << with;
    }
  }
}

// Weights that leave before their gradients are those that leave after them.
TEST_F(SyncModelsTest, LevelsOfElasticAveragingAgreeBitForBit) {
  SyncRun run;
  run.workers = 3;
  const auto expected =
      weights_after(run_sync(text("model: 'sync_easgd' easgd_level: 1", 20), run, options_));
  EXPECT_EQ(weights_after(run_sync(text("model: 'sync_easgd'", 20), run, options_)), expected);
  EXPECT_EQ(weights_after(run_sync(text("model: 'sync_easgd'", 20, "comm_param { overlap: false }"),
                                   run, options_)),
            expected);
  run.transport = "sim";
  run.step_seconds = {0.01, 0.013, 0.03};
  EXPECT_EQ(weights_after(run_sync(text("model: 'sync_easgd'", 20), run, options_)), expected);
  EXPECT_GT(distance(expected,
                     weights_after(run_sync(text("model: 'bsp' servers: 1", 20), run, options_))),
            1e-3);
}

// A worker that stood still for twenty steps goes on where it was.
TEST_F(SyncModelsTest, AWorkerThatStoodStillGoesOn) {
  for (const std::string model : {"asp", "ssp", "momentum_k_sync", "local_sgd"}) {
    SCOPED_TRACE(model);
    SyncRun run;
    run.transport = "sim";
    run.workers = 3;
    SimFault stop, go_on;
    stop.kind = SimFault::Kind::kStop;
    go_on.kind = SimFault::Kind::kContinue;
    stop.rank = go_on.rank = 2;
    stop.at = 0.105;
    go_on.at = 0.3;
    run.faults = {stop, go_on};
    const auto ranks = run_sync(text("model: '" + model + "'"), run, options_);
    for (const SyncRank& r : ranks) ASSERT_EQ(r.error, "");
    EXPECT_LT(ranks[0].end.seconds, 2);
    bool works = false;
    for (const RoundRecord& round : ranks[0].run->seen.rounds) {
      for (const auto& m : round.members) works |= m.worker == 1 && round.seconds > 0.35;
    }
    EXPECT_TRUE(works);
  }
}

// Look-ahead with k = N is Nesterov's rule on the mean gradient.
TEST_F(SyncModelsTest, LookAheadOfAllIsNesterov) {
  SyncRun all_reduce;
  all_reduce.servers = 0;
  all_reduce.workers = 3;
  const auto expected =
      weights_after(run_sync(text("model: 'bsp'", 50, "type: 'Nesterov'"), all_reduce, options_));
  SyncRun run;
  run.workers = 3;
  const auto own = weights_after(
      run_sync(text("model: 'momentum_k_sync' k_rule: 'fixed' k: 3", 50), run, options_));
  EXPECT_LE(distance(own, expected), 1e-5);
}

}  // namespace
}  // namespace kinet
