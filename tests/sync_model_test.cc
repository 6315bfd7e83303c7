// Every synchronisation model as a state machine: scripted events give the plans that its paper or
// its head says; and whatever happens, the contract of src/sync/sync.h holds.
// ctest: labels=unit,core,smoke timeout=120
#include <cmath>

#include "src/base/rng.h"
#include "tests/sync_script.h"

namespace kinet {
namespace {

using Plans = SyncScript::Plans;

TEST(BspModel, WaitsForAll) {
  SyncScript s("model: 'bsp'", 3);
  EXPECT_EQ(s.start(), (Plans{"->0 1 2"}));
  EXPECT_EQ(s.push(1), Plans{});
  EXPECT_EQ(s.push(0), Plans{});
  EXPECT_EQ(s.push(2), (Plans{"1.0*0.3333 0.0*0.3333 2.0*0.3333 ->1 0 2"}));
  EXPECT_DOUBLE_EQ(s.iteration, 1);
  s.push(0), s.push(1);
  EXPECT_EQ(s.alive(2, false), (Plans{"0.1*0.5 1.1*0.5 ->0 1"}));  // nobody waits for the dead
  s.push(0);
  EXPECT_EQ(s.alive(2, true), (Plans{"->2"}));
  s.push(1);
  EXPECT_EQ(s.idle(2), (Plans{"->2"}));  // not finite: again
  EXPECT_EQ(s.push(2).size(), 1u);
  EXPECT_EQ(s.last_k, 3);
}

TEST(AspModel, AppliesAtOnce) {
  SyncScript s("model: 'asp'", 4);
  s.start();
  EXPECT_EQ(s.push(2), (Plans{"2.0*0.25 ->2"}));
  EXPECT_EQ(s.push(2), (Plans{"2.1*0.25 ->2"}));
  EXPECT_EQ(s.push(0), (Plans{"0.0*0.25~2 ->0"}));
  EXPECT_EQ(s.push(2), (Plans{"2.2*0.25~1 ->2"}));
  EXPECT_DOUBLE_EQ(s.iteration, 1);
  s.alive(3, false);
  EXPECT_EQ(s.push(1), (Plans{"1.0*0.3333~4 ->1"}));
}

TEST(SspModel, NobodyIsMoreThanTheBoundAhead) {
  SyncScript s("model: 'ssp' bound: 2", 3);
  s.start();
  EXPECT_EQ(s.push(0), (Plans{"0.0*0.3333 ->0"}));
  EXPECT_EQ(s.push(0), (Plans{"0.1*0.3333 ->0"}));
  EXPECT_EQ(s.push(0), (Plans{"0.2*0.3333 "}));  // 3 ahead: waits
  EXPECT_EQ(s.push(1), (Plans{"1.0*0.3333~3 ->1"}));
  EXPECT_EQ(s.push(2), (Plans{"2.0*0.3333~4 ->2", "->0"}));
  s.push(0);
  EXPECT_FALSE(s.computing(0));
  s.push(1);
  EXPECT_EQ(s.alive(2, false), (Plans{"->0"}));  // the slowest is gone
  EXPECT_EQ(s.alive(2, true), (Plans{"->2"}));
}

TEST(SspModel, TheBoundHoldsInAnyOrder) {
  for (const int bound : {0, 1, 3}) {
    SyncScript s(fmt::format("model: 'ssp' bound: {}", bound), 4);
    s.start();
    Rng rng(7, RngPurpose::kTest, static_cast<uint64_t>(bound));
    for (int i = 0; i < 2000; ++i) {
      const int w = static_cast<int>(rng.below(4));
      if (s.computing(w)) s.push(w);
      int64_t low = INT64_MAX, high = 0;
      for (int p = 0; p < 4; ++p) {
        low = std::min(low, s.pushed(p));
        if (s.computing(p)) high = std::max(high, s.pushed(p));
      }
      ASSERT_LE(high - low, bound);  // of those that go on
    }
    EXPECT_GT(s.rounds, 200);
  }
}

TEST(KSyncModel, TheFirstKOfTheNewestOthersGiveUp) {
  SyncScript s("model: 'k_sync' variant: K_SYNC k: 2", 4);
  s.start();
  s.push(3);
  EXPECT_EQ(s.push(1), (Plans{"3.0*0.5 1.0*0.5 ->3 1!0 2"}));
  EXPECT_EQ(s.idle(0), (Plans{"->0"}));                 // gave up in time
  EXPECT_EQ(s.push(2), (Plans{"drop 2.0~1 ", "->2"}));  // was faster than the word
  s.push(2);
  EXPECT_EQ(s.push(0), (Plans{"2.1*0.5 0.1*0.5 ->2 0!1 3"}));
}

TEST(KSyncModel, TheFirstKMiniBatches) {
  SyncScript s("model: 'k_sync' variant: K_BATCH_SYNC k: 3", 2);
  s.start();
  EXPECT_EQ(s.push(0), (Plans{"->0"}));
  EXPECT_EQ(s.push(0), (Plans{"->0"}));
  EXPECT_EQ(s.push(1), (Plans{"0.0*0.3333 0.1*0.3333 1.0*0.3333 ->1!0"}));
  EXPECT_EQ(s.push(0), (Plans{"drop 0.2~1 ", "->0"}));
}

TEST(KSyncModel, AsynchronousFormsTakeAnyAge) {
  SyncScript s("model: 'k_sync' variant: K_ASYNC k: 2", 3);
  s.start();
  EXPECT_EQ(s.push(0), Plans{});  // waits for the round
  EXPECT_EQ(s.push(1), (Plans{"0.0*0.5 1.0*0.5 ->0 1"}));
  s.push(2);
  EXPECT_EQ(s.push(0), (Plans{"2.0*0.5~1 0.1*0.5 ->2 0"}));
  SyncScript batches("model: 'k_sync' variant: K_BATCH_ASYNC k: 2", 3);
  batches.start();
  EXPECT_EQ(batches.push(0), (Plans{"->0"}));
  EXPECT_EQ(batches.push(0), (Plans{"0.0*0.5 0.1*0.5 ->0"}));
  EXPECT_EQ(batches.push(1), (Plans{"->1"}));
  EXPECT_EQ(batches.push(0), (Plans{"1.0*0.5~1 0.2*0.5 ->0"}));
}

TEST(BackupModel, LateOnesAreLost) {
  SyncScript s("model: 'backup_workers' backup: 1", 3);
  s.start();
  s.push(2);
  EXPECT_EQ(s.push(0), (Plans{"2.0*0.5 0.0*0.5 ->2 0"}));
  EXPECT_EQ(s.push(1), (Plans{"drop 1.0~1 ", "->1"}));
  s.alive(0, false), s.alive(1, false);
  EXPECT_EQ(s.push(2), (Plans{"2.1*1 ->2"}));
}

TEST(LocalSgdModel, AveragesDifferences) {
  SyncScript s("model: 'local_sgd' local_steps: 4", 2);
  s.start();
  s.push(1);
  EXPECT_EQ(s.push(0), (Plans{"difference 1.0*0.5 difference 0.0*0.5 ->1 0"}));
  EXPECT_DOUBLE_EQ(s.iteration, 4);
}

// k = round(k0 sqrt(F0 / F)), looked at every interval, and never less than before.
TEST(AdaSyncModel, KFollowsTheLoss) {
  SyncScript s("model: 'ada_sync' ada_interval: 10", 4);
  s.start();
  std::vector<int> ks;
  const auto rounds = [&](double loss, int count) {
    s.loss = loss;
    for (int i = 0; i < count; ++i) {
      s.now += 1;
      const int before = s.rounds;
      for (int w = 0; s.rounds == before; w = (w + 1) % 4) {
        if (s.computing(w)) s.push(w);
      }
    }
    ks.push_back(s.last_k);
  };
  rounds(4, 4);    // F0 = 4
  rounds(4, 20);   // sqrt(1)
  rounds(1, 100);  // sqrt(4)
  rounds(4, 100);  // does not fall
  rounds(.25, 100);
  EXPECT_EQ(ks, (std::vector<int>{1, 1, 2, 2, 4}));
  const std::vector<double> state = s.model().state();
  SyncScript again("model: 'ada_sync' ada_interval: 10", 4);
  again.model().restore(state);
  again.start();
  EXPECT_EQ(again.model().k(), 4);
}

// --- momentum_k_sync ---------------------------------------------------------------

std::string momentum(const std::string& absorb, int k, const std::string& more = "") {
  return fmt::format("model: 'momentum_k_sync' absorb: {} k_rule: 'fixed' k: {} {}", absorb, k,
                     more);
}

TEST(MomentumModel, LookAheadWaitsForKOfAnyAge) {
  SyncScript s(momentum("LOOKAHEAD", 2), 4);
  s.start();
  EXPECT_EQ(s.push(3), Plans{});
  EXPECT_EQ(s.push(0), (Plans{"own 3.0*0.25 own 0.0*0.25 ->3 0"}));
  EXPECT_EQ(s.push(1), Plans{});
  EXPECT_EQ(s.push(3), (Plans{"own 1.0*0.25~1 own 3.1*0.25 ->1 3"}));
  EXPECT_DOUBLE_EQ(s.iteration, 1);
  EXPECT_FALSE(s.applied[1].members[0].grouped && s.applied[1].members[1].grouped);
  EXPECT_TRUE(s.applied[0].members[0].grouped && s.applied[0].members[1].grouped);
}

// K = k + the late weight of this round or, when that is more, the running mean.
TEST(MomentumModel, LateOnesShareTheWeight) {
  struct Case {
    std::string absorb, use;
    double part;          // of the weight of a fresh one
    double displacement;  // of lag 1
  };
  for (const Case& c : {Case{"ORDERED", "ordered ", 1, 1}, Case{"MOMENTUM", "momentum ", 1, 0.81},
                        Case{"STALENESS", "", 0.5, 0.5}}) {
    SCOPED_TRACE(c.absorb);
    SyncScript s(momentum(c.absorb, 2), 3);
    s.start();
    s.push(0);
    EXPECT_EQ(s.push(1), (Plans{"0.0*0.5 1.0*0.5 ->0 1"}));
    EXPECT_EQ(s.push(2), (Plans{"->2"}));  // late: goes on, is absorbed in the next round
    s.push(0);
    const double all = 1 / (2 + c.displacement);
    EXPECT_EQ(s.push(1), (Plans{fmt::format("{0}2.0*{1:.4g}~1 0.1*{2:.4g} 1.1*{2:.4g} ->0 1", c.use,
                                            all * c.part, all)}));
    s.push(0);
    const double weight = 1 / (2 + 0.1 * c.displacement);
    EXPECT_EQ(s.push(1), (Plans{fmt::format("0.2*{0:.4g} 1.2*{0:.4g} ->0 1", weight)}));
  }
}

TEST(MomentumModel, DropAndTooLateOnes) {
  for (const std::string& fields : {momentum("DROP", 1), momentum("ORDERED", 1, "max_lag: 0")}) {
    SyncScript s(fields, 2);
    s.start();
    s.push(0);
    EXPECT_EQ(s.push(1), (Plans{"drop 1.0~1 ", "->1"})) << fields;
  }
  SyncScript s(momentum("LOOKAHEAD", 1, "max_lag: 2"), 2);
  s.start();
  s.push(0), s.push(0), s.push(0);
  EXPECT_EQ(s.push(1), (Plans{"drop 1.0~3 ", "->1"}));
}

// The same plans, so the same weights, iterations and decay.
TEST(MomentumModel, WithoutMomentumMomentumIsDrop) {
  SyncScript a(momentum("MOMENTUM", 2), 4, 0), b(momentum("DROP", 2), 4, 0);
  EXPECT_EQ(a.start(), b.start());
  Rng rng(3, RngPurpose::kTest, 0);
  for (int i = 0; i < 1000; ++i) {
    const int w = static_cast<int>(rng.below(4));
    if (!a.computing(w)) continue;
    ASSERT_EQ(a.push(w), b.push(w));
  }
  EXPECT_GT(a.rounds, 100);
  EXPECT_DOUBLE_EQ(a.iteration, b.iteration);
}

// No round is more than an iteration, and most are nearly one (MOMENTUM apart, whose weights move
// less than those of fresh gradients).
TEST(MomentumModel, WeightsOfARoundSumToOne) {
  for (const std::string absorb : {"ORDERED", "STALENESS", "DROP"}) {
    SyncScript s(momentum(absorb, 2), 5);
    s.start();
    Rng rng(4, RngPurpose::kTest, 0);
    for (int i = 0; i < 5000; ++i) {
      const int w = static_cast<int>(rng.below(5));
      if (s.computing(w)) s.push(w);
    }
    EXPECT_NEAR(s.iteration / s.rounds, 0.9, 0.1) << absorb;
    for (const Plan& plan : s.applied) {
      double sum = 0;
      for (const PlanMember& m : plan.members) sum += m.weight;
      ASSERT_LE(sum, 1 + 1e-9) << show(plan);
    }
  }
}

TEST(MomentumModel, ADeathLowersK) {
  for (const std::string absorb : {"LOOKAHEAD", "ORDERED", "MOMENTUM", "STALENESS", "DROP"}) {
    SyncScript s(momentum(absorb, 3), 3);
    s.start();
    s.push(0), s.push(1);
    EXPECT_EQ(s.rounds, 0);
    s.alive(2, false);
    EXPECT_EQ(s.rounds, 1) << absorb;
    EXPECT_EQ(s.last_k, 2);
    s.alive(2, true);
    EXPECT_TRUE(s.computing(2));
    s.push(0), s.push(1), s.push(2);
    EXPECT_EQ(s.rounds, 2) << absorb;
    EXPECT_EQ(s.last_k, 3) << absorb;
  }
}

TEST(MomentumModel, TypesThatItIsNotDefinedFor) {
  const auto error = [](const std::string& fields, const std::string& type) -> std::string {
    try {
      SyncScript s(fields, 2, 0.9, type);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error(momentum("LOOKAHEAD", 2), "Adam").find("DROP or STALENESS"), std::string::npos);
  EXPECT_NE(error(momentum("ORDERED", 2), "Nesterov").find("LOOKAHEAD"), std::string::npos);
  EXPECT_EQ(error(momentum("DROP", 2), "Adam"), "");
  EXPECT_NE(error("model: 'bps'", "SGD").find("did you mean"), std::string::npos);
  EXPECT_NE(error("model: 'k_sync' k: 5", "SGD").find("there are 2 workers"), std::string::npos);
  EXPECT_NE(error("model: 'backup_workers' backup: 2", "SGD").find("nobody"), std::string::npos);
}

// --- all of them ------------------------------------------------------------------------

const std::vector<std::string>& every_model() {
  static const std::vector<std::string> all{
      "model: 'bsp'",
      "model: 'asp'",
      "model: 'dana_zero'",
      "model: 'dana_slim' push_weight: 0.5",
      "model: 'ssp' bound: 0",
      "model: 'ssp' bound: 2",
      "model: 'k_sync' variant: K_SYNC",
      "model: 'k_sync' variant: K_BATCH_SYNC k: 3",
      "model: 'k_sync' variant: K_BATCH_SYNC k: 12",
      "model: 'k_sync' variant: K_ASYNC",
      "model: 'k_sync' variant: K_BATCH_ASYNC k: 2",
      "model: 'k_sync' variant: K_BATCH_ASYNC k: 40",
      "model: 'backup_workers' backup: 0",
      "model: 'local_sgd' local_steps: 4",
      "model: 'post_local_sgd' local_steps: 4",
      "model: 'ada_comm' ada_interval: 3",
      "model: 'qsr' local_steps: 2",
      "model: 'easgd'",
      "model: 'async_easgd' easgd_period: 3",
      "model: 'async_measgd'",
      "model: 'hogwild_easgd'",
      "model: 'sync_easgd'",
      "model: 'async_sgd'",
      "model: 'async_msgd' push_weight: 0.5",
      "model: 'hogwild_sgd'",
      "model: 'sapus'",
      "model: 'sapus' sapus_loss_scale: 0.1 sapus_staleness: 1",
      "model: 'ada_sync' ada_interval: 3",
      "model: 'momentum_k_sync'",
      "model: 'momentum_k_sync' max_lag: 2 k_rule: 'goodput'",
      "model: 'momentum_k_sync' absorb: ORDERED k_rule: 'goodput_lag'",
      "model: 'momentum_k_sync' absorb: MOMENTUM k_rule: 'norm' max_lag: 1",
      "model: 'momentum_k_sync' absorb: STALENESS k_rule: 'loss'",
      "model: 'momentum_k_sync' absorb: DROP k_rule: 'gap'"};
  return all;
}

// Workers push, fail, die and come back in any order: every plan keeps the contract (checked by
// SyncScript), and nobody waits for ever.
TEST(EveryModel, KeepsTheContractWhateverHappens) {
  for (const std::string& fields : every_model()) {
    for (uint64_t run = 0; run < 20; ++run) {
      SCOPED_TRACE(fmt::format("{}, run {}", fields, run));
      Rng rng(11, RngPurpose::kTest, run);
      const int workers = 1 + static_cast<int>(rng.below(6));
      SyncScript s(fields, workers);
      s.momentum_norm = 0.1, s.step_norm = 0.01;
      s.start();
      for (int i = 0; i < 400; ++i) {
        s.now += 0.1;
        s.seconds = 0.5 + rng.uniform();
        s.mean_squared = 0.2 + rng.uniform() / 2;
        s.loss = 1 + rng.uniform();
        // Some are seldom chosen: stragglers.
        const int w = static_cast<int>(std::min(rng.below(workers), rng.below(workers)));
        const uint64_t what = rng.below(40);
        if (what == 0 && s.model().live() > 1)
          s.alive(w, false);
        else if (what == 1 && !s.is_alive(w))
          s.alive(w, true);
        else if (what < 4 && s.computing(w))
          s.idle(w);
        else if (s.computing(w))
          s.push(w);
        ASSERT_FALSE(::testing::Test::HasFailure());
        const int k = s.model().k(), live = s.model().live();
        ASSERT_GE(k, 1);
        ASSERT_TRUE(k <= live || fields.find("BATCH") != std::string::npos) << k;
        bool computes = false;
        for (int p = 0; p < workers; ++p) computes |= s.computing(p);
        ASSERT_TRUE(computes) << "all wait";
      }
      EXPECT_GT(s.rounds, 1);
      EXPECT_LE(s.unused(), static_cast<size_t>(workers * s.model().slots()));
    }
  }
}

// What state() has saved brings a new model to the same k, and to the same state.
TEST(EveryModel, GoesOnFromItsState) {
  for (const std::string& fields : every_model()) {
    SCOPED_TRACE(fields);
    SyncScript s(fields, 3);
    s.momentum_norm = 0.1, s.step_norm = 0.01;
    s.start();
    for (int i = 0; i < 200; ++i) {
      s.now += 1;
      if (s.computing(i % 3)) s.push(i % 3);
      if (i % 2 == 0 && s.computing(0)) s.push(0);
    }
    const std::vector<double> state = s.model().state();
    std::vector<std::string> plans[2];
    for (auto& out : plans) {
      SyncScript again(fields, 3);
      again.momentum_norm = 0.1, again.step_norm = 0.01;
      again.model().restore(state);
      again.model().start_at(s.model().version(), {70, 70, 70});
      EXPECT_EQ(again.model().state(), state);
      again.start();
      EXPECT_EQ(again.model().k(), s.model().k());
      for (int i = 0; i < 60; ++i) {
        again.now += 1;
        if (!again.computing(i % 3)) continue;
        for (const std::string& plan : again.push(i % 3)) out.push_back(plan);
      }
    }
    EXPECT_EQ(plans[0], plans[1]);
    EXPECT_GT(plans[0].size(), 10u);
  }
}

}  // namespace
}  // namespace kinet
