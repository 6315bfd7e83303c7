// A run is repeated from its log, over other transports and clocks: the weights are the same to the
// last bit. What cannot be repeated is refused.
// ctest: labels=unit,core,threads timeout=300
#include <gtest/gtest.h>

#include <fstream>

#include "src/solver/round_lines.h"
#include "src/sync/replay.h"
#include "tests/sync_ranks.h"

namespace kinet {
namespace {

class SyncReplayTest : public SolverTest {
 protected:
  struct End {
    std::vector<float> weights;
    std::vector<RoundRecord> rounds;
    std::string error;
    FinishRecord finish;
    Recorder seen;
  };

  End train(const std::string& sync, const SyncRun& run, const std::string& replay = "",
            const std::string& more = "", const std::string& rate = "0.05") {
    SolverOptions options = options_;
    options.replay = replay;
    const std::string text = solver_text(
        net(kDropout),
        fmt::format("base_lr: {} momentum: 0.9 weight_decay: 0.01 clip_gradients: 2 "
                    "random_seed: 5 {} sync_param {{ {} servers: {} }} {}",
                    rate, kNoSnapshot, sync, run.servers,
                    more.find("max_iter") == std::string::npos ? "max_iter: 40 " + more : more));
    std::vector<SyncRank> ranks = run_sync(text, run, options);
    End out;
    out.error = ranks[0].error;
    out.finish = ranks[0].end;
    if (ranks[0].run == nullptr) return out;
    const auto arena = ranks[0].run->solver->train_net().parameter_arena();
    out.weights.assign(arena.begin(), arena.end());
    out.seen = ranks[0].run->seen;
    out.rounds = out.seen.rounds;
    return out;
  }

  // The rounds as a run directory keeps them.
  std::string log_of(const std::vector<RoundRecord>& rounds) {
    std::string lines;
    for (const RoundRecord& r : rounds) lines += round_line(r) + "\n";
    folder_.write("metrics.jsonl", lines);
    return folder_.str();
  }

  static inline const std::string kDropout =
      kRelu + "layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'ip1' }\n";
};

SyncRun three(const std::string& transport, int servers = 1) {
  SyncRun run;
  run.transport = transport;
  run.servers = servers;
  run.workers = 3;
  run.step_seconds = {0.01, 0.017, 0.06};
  return run;
}

struct Case {
  std::string sync, more;
  int servers = 1;
};

// On virtual time workers differ six times in speed, on inproc and tcp hardly: without the log the
// rounds are others.
TEST_F(SyncReplayTest, SameBitsOverOtherTransports) {
  const std::vector<Case> cases{
      {"model: 'asp'", ""},
      {"model: 'ssp' bound: 2", ""},
      {"model: 'k_sync' variant: K_SYNC k: 2", ""},
      {"model: 'k_sync' variant: K_BATCH_SYNC k: 4", ""},
      {"model: 'k_sync' variant: K_ASYNC k: 2", ""},
      {"model: 'k_sync' variant: K_BATCH_ASYNC k: 4", ""},
      {"model: 'backup_workers' backup: 1", ""},
      {"model: 'local_sgd' local_steps: 3", ""},
      {"model: 'qsr' local_steps: 2 qsr_alpha: 0.15", "lr_policy: 'inv' gamma: 0.1 power: 1"},
      {"model: 'sapus' sapus_delta: 0.2", ""},
      {"model: 'easgd'", ""},
      {"model: 'async_measgd'", "", 2},
      {"model: 'hogwild_easgd' easgd_period: 2", ""},
      {"model: 'sync_easgd'", ""},
      {"model: 'hogwild_sgd'", ""},
      {"model: 'asp' compress: SIGN", ""},
      {"model: 'asp' compress: TOPK compress_ratio: 0.2 compress_warmup: 3", "", 2},
      {"model: 'k_sync' variant: K_ASYNC k: 2 compress: TERNARY", ""},
      {"model: 'momentum_k_sync'", ""},
      {"model: 'momentum_k_sync'", "", 2},
      {"model: 'momentum_k_sync'", "lr_search_param { method: armijo every: 2 }"},
      {"model: 'momentum_k_sync' absorb: ORDERED k_rule: 'fixed' k: 2", "", 2},
      {"model: 'momentum_k_sync' absorb: STALENESS k_rule: 'fixed' k: 2", ""},
      {"model: 'momentum_k_sync' absorb: ORDERED k_rule: 'fixed' k: 1 max_lag: 2", ""},
      {"model: 'momentum_k_sync' absorb: DROP k_rule: 'fixed' k: 2", ""}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.sync + " " + c.more);
    const End logged = train(c.sync, three("sim", c.servers), "", c.more);
    ASSERT_EQ(logged.error, "");
    const std::string log = log_of(logged.rounds);
    SyncRun faster = three("sim", c.servers);
    faster.step_seconds = {0.05, 0.02, 0.01};
    // They wait for all, or for one after the other: no choice.
    const bool fixed = c.sync.find("local_sgd") != std::string::npos ||
                       c.sync.find("'qsr'") != std::string::npos ||
                       c.sync.find("'easgd'") != std::string::npos ||
                       c.sync.find("'sync_easgd'") != std::string::npos;
    EXPECT_EQ(train(c.sync, faster, "", c.more).weights == logged.weights, fixed);
    EXPECT_EQ(train(c.sync, faster, log, c.more).weights, logged.weights);
    for (const std::string& transport : {std::string("inproc"), std::string("tcp")}) {
      SCOPED_TRACE(transport);
      const End again = train(c.sync, three(transport, c.servers), log, c.more);
      ASSERT_EQ(again.error, "");
      EXPECT_EQ(again.weights, logged.weights);
      EXPECT_EQ(again.rounds.size(), logged.rounds.size());
      EXPECT_EQ(again.finish.iteration, logged.finish.iteration);
    }
  }
}

// The reverse: what real clocks have made is repeated on virtual time.
TEST_F(SyncReplayTest, RealClocksAreRepeated) {
  for (const std::string& sync :
       {std::string("model: 'asp'"), std::string("model: 'k_sync' variant: K_ASYNC k: 2"),
        std::string("model: 'momentum_k_sync'"),
        std::string("model: 'momentum_k_sync' absorb: ORDERED k_rule: 'fixed' k: 2")}) {
    SCOPED_TRACE(sync);
    const End logged = train(sync, three("inproc"));
    ASSERT_EQ(logged.error, "");
    const std::string log = log_of(logged.rounds);
    for (const std::string& transport : {std::string("sim"), std::string("shm")}) {
      const End again = train(sync, three(transport), log);
      ASSERT_EQ(again.error, "");
      EXPECT_EQ(again.weights, logged.weights);
      EXPECT_EQ(log_of(again.rounds), log);
    }
  }
}

// A log that ends before max_iter ends the run.
TEST_F(SyncReplayTest, EndsWithTheLog) {
  const std::string sync = "model: 'asp'";
  const End logged = train(sync, three("sim"));
  std::vector<RoundRecord> half(logged.rounds.begin(), logged.rounds.begin() + 50);
  const End again = train(sync, three("inproc"), log_of(half));
  ASSERT_EQ(again.error, "");
  EXPECT_EQ(again.finish.reason, "the end of the replayed log");
  EXPECT_EQ(again.rounds.size(), 50u);
}

// From the state that it went on from, and from the very beginning.
TEST_F(SyncReplayTest, AResumedRunIsRepeated) {
  for (const std::string& sync :
       {std::string("model: 'momentum_k_sync'"),
        std::string("model: 'k_sync' variant: K_ASYNC k: 2"),
        std::string("model: 'momentum_k_sync' absorb: ORDERED k_rule: 'fixed' k: 1")}) {
    SCOPED_TRACE(sync);
    const End first = train(sync, three("sim"), "", "max_iter: 20 snapshot: 20");
    ASSERT_EQ(first.seen.snapshots.size(), 1u) << first.error;
    options_.resume = first.seen.snapshots[0].second;
    const End second = train(sync, three("sim"), "", "max_iter: 40");
    ASSERT_EQ(second.error, "");
    EXPECT_EQ(second.rounds.front().note, "");
    const End resumed = train(sync, three("inproc"), log_of(second.rounds), "max_iter: 40");
    ASSERT_EQ(resumed.error, "");
    EXPECT_EQ(resumed.weights, second.weights);
    options_.resume.clear();
    std::vector<RoundRecord> all = first.rounds;
    all.insert(all.end(), second.rounds.begin(), second.rounds.end());
    const End whole = train(sync, three("inproc"), log_of(all), "max_iter: 40");
    ASSERT_EQ(whole.error, "");
    EXPECT_EQ(whole.weights, second.weights);
  }
}

TEST_F(SyncReplayTest, AnotherRunIsNoticed) {
  const std::string sync = "model: 'asp'";
  const End logged = train(sync, three("sim"));
  const std::string log = log_of(logged.rounds);
  const End rate = train(sync, three("inproc"), log, "", "0.06");
  EXPECT_NE(rate.error.find("the learning rate of worker"), std::string::npos) << rate.error;
  SyncRun two = three("inproc");
  two.workers = 2;
  const End workers = train(sync, two, log);
  EXPECT_NE(workers.error.find("3 workers in round 1, 2 now"), std::string::npos) << workers.error;
}

TEST_F(SyncReplayTest, DamagedLogsAreRefused) {
  const std::string sync = "model: 'asp'";
  const End logged = train(sync, three("sim"));
  const auto refused = [&](const std::string& what, auto damage) {
    std::vector<RoundRecord> rounds = logged.rounds;
    damage(rounds);
    const End end = train(sync, three("inproc"), log_of(rounds));
    EXPECT_NE(end.error.find(what), std::string::npos) << what << ": " << end.error;
  };
  refused("no rounds", [](auto& r) { r.clear(); });
  refused("a log with a hole", [](auto& r) { r.erase(r.begin() + 7); });
  refused("lost or joined", [](auto& r) { r[9].live = 2; });
  refused("worker 1 joins", [](auto& r) { r[9].note = "worker 1 lost; worker 1 joins"; });
  refused("twice", [](auto& r) { r[9].members[0] = r[8].members[0]; });
  refused("is damaged", [](auto& r) { r[9].members[0].lag = 10; });
  refused("begins with round 3", [](auto& r) { r.erase(r.begin(), r.begin() + 2); });
  refused("is no use of a gradient", [](auto& r) { r[9].members[0].how = "thrown"; });
  refused("its loss is", [](auto& r) { r[9].loss *= 1.01; });
}

}  // namespace
}  // namespace kinet
