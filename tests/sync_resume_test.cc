// Snapshots of runs with servers, and going on from them: what was saved by any number of servers
// goes on with any number, bit for bit where the model waits for everybody or time is virtual.
// ctest: labels=unit,core,threads timeout=300
#include <gtest/gtest.h>

#include "src/net/snapshot.h"
#include "tests/sync_ranks.h"

namespace kinet {
namespace {

class SyncResumeTest : public SolverTest {
 protected:
  struct End {
    std::vector<float> weights, history;
    SyncExtras sync;
    std::vector<LrSearchRecord> search;
    std::string state;  // path of the last snapshot
    Recorder seen;
  };

  // Snapshots every 5 iterations, up to `iterations`, into files that begin with `name`.
  End train(const std::string& name, const std::string& sync, SyncRun run, int iterations,
            const std::string& resume = "", const std::string& more = "") {
    SolverOptions options = options_;
    options.resume = resume;
    const std::string text = solver_text(
        net(), fmt::format("base_lr: 0.05 momentum: 0.9 weight_decay: 0.01 max_iter: {} "
                           "random_seed: 5 snapshot: 5 snapshot_prefix: '{}' {} sync_param {{ {} "
                           "servers: {} }}",
                           iterations, name, more, sync, run.servers));
    std::vector<SyncRank> ranks = run_sync(text, run, options);
    End out;
    for (const SyncRank& r : ranks) EXPECT_EQ(r.error, "");
    if (::testing::Test::HasFailure()) return out;
    const auto arena = ranks[0].run->solver->train_net().parameter_arena();
    out.weights.assign(arena.begin(), arena.end());
    out.seen = ranks[0].run->seen;
    if (out.seen.snapshots.empty()) return out;
    out.state = out.seen.snapshots.back().second;
    const Snapshot saved = read_snapshot(out.state);
    for (const HistoryEntry& entry : saved.history) {
      out.history.insert(out.history.end(), entry.data.begin(), entry.data.end());
    }
    out.sync = saved.extras->sync;
    out.search = saved.extras->lr_search;
    return out;
  }

  // A run of 10 iterations is the same as 5, a snapshot, and 5 more.
  void expect_resume_law(const std::string& sync, const SyncRun& run,
                         const std::string& more = "") {
    SCOPED_TRACE(sync + " over " + run.transport);
    const End whole = train("whole", sync, run, 10, "", more);
    const End first = train("half", sync, run, 5, "", more);
    ASSERT_NE(first.state, "");
    EXPECT_NE(first.weights, whole.weights);
    const End second = train("half", sync, run, 10, first.state, more);
    expect_same(second, whole);
  }

  static void expect_same(const End& a, const End& b) {
    EXPECT_EQ(a.weights, b.weights);
    EXPECT_EQ(a.history, b.history);
    ASSERT_EQ(a.sync.workers.size(), b.sync.workers.size());
    for (size_t w = 0; w < a.sync.workers.size(); ++w) {
      EXPECT_EQ(a.sync.workers[w].next_batch, b.sync.workers[w].next_batch);
      EXPECT_EQ(a.sync.workers[w].momentum, b.sync.workers[w].momentum);
    }
    ASSERT_EQ(a.search.size(), b.search.size());
    for (size_t w = 0; w < a.search.size(); ++w) {
      EXPECT_EQ(a.search[w].log_multiplier, b.search[w].log_multiplier);
      EXPECT_EQ(a.search[w].step, b.search[w].step);
    }
  }
};

const std::string kBsp = "model: 'bsp'";
const std::string kAllLookAhead = "model: 'momentum_k_sync' k_rule: 'fixed' k: 3";
const std::string kAllOrdered = "model: 'momentum_k_sync' k_rule: 'fixed' k: 3 absorb: ORDERED";

TEST_F(SyncResumeTest, GoesOnBitForBit) {
  for (const std::string& transport : {std::string("inproc"), std::string("sim")}) {
    for (const int servers : {1, 2}) {
      SyncRun run;
      run.transport = transport;
      run.servers = servers;
      run.workers = 3;
      for (const std::string& sync : {kBsp, kAllLookAhead, kAllOrdered}) {
        expect_resume_law(sync, run);
      }
    }
  }
}

// What the servers hold a slice of each is whole in the snapshot.
TEST_F(SyncResumeTest, ServersSaveTheSameAsOne) {
  SyncRun one, two;
  one.workers = two.workers = 3;
  two.servers = 2;
  for (const std::string& sync : {kBsp, kAllLookAhead}) {
    const End a = train("one", sync, one, 5), b = train("two", sync, two, 5);
    expect_same(a, b);
  }
}

TEST_F(SyncResumeTest, AnotherNumberOfServersGoesOn) {
  SyncRun one, two;
  one.workers = two.workers = 3;
  two.servers = 2;
  for (const std::string& sync : {kBsp, kAllLookAhead}) {
    const End whole = train("whole", sync, one, 10);
    expect_same(train("a", sync, two, 10, train("a", sync, one, 5).state), whole);
    expect_same(train("b", sync, one, 10, train("b", sync, two, 5).state), whole);
  }
}

// The same updates with and without servers, so a state of one is good for the other.
TEST_F(SyncResumeTest, AllReduceAndServersGoOnFromEachOther) {
  SyncRun all_reduce, server;
  all_reduce.workers = server.workers = 2;
  all_reduce.servers = 0;
  const End whole = train("whole", kBsp, all_reduce, 10);
  const End a = train("a", kBsp, server, 10, train("a", kBsp, all_reduce, 5).state);
  EXPECT_EQ(a.weights, whole.weights);
  EXPECT_TRUE(a.seen.has_note("a run without servers"));
  const End b = train("b", kBsp, all_reduce, 10, train("b", kBsp, server, 5).state);
  EXPECT_EQ(b.weights, whole.weights);
  EXPECT_EQ(b.history, whole.history);
}

// F9: another number of workers is allowed, and said.
TEST_F(SyncResumeTest, AnotherNumberOfWorkersIsSaid) {
  for (const std::string& sync : {kBsp, std::string("model: 'momentum_k_sync'")}) {
    SyncRun three;
    three.workers = 3;
    const End first = train("three", sync, three, 5);
    for (const int workers : {2, 4}) {
      SyncRun other;
      other.workers = workers;
      const End end = train(fmt::format("other{}", workers), sync, other, 10, first.state);
      EXPECT_EQ(end.seen.finishes.at(0).iteration, 10);
      EXPECT_TRUE(end.seen.has_note("with 3 workers"));
      EXPECT_EQ(end.sync.workers.size(), static_cast<size_t>(workers));
    }
  }
}

// k adapts and workers differ in speed: on virtual time the same every time, also through a
// snapshot's numbers.
TEST_F(SyncResumeTest, VirtualTimeRepeatsAdaptiveRuns) {
  SyncRun run;
  run.transport = "sim";
  run.workers = 3;
  run.step_seconds = {0.01, 0.017, 0.05};
  for (const std::string& absorb : {std::string("LOOKAHEAD"), std::string("ORDERED")}) {
    const std::string sync = "model: 'momentum_k_sync' absorb: " + absorb;
    const End a = train("a", sync, run, 30), b = train("b", sync, run, 30);
    expect_same(a, b);
    EXPECT_EQ(a.sync.state, b.sync.state);
    EXPECT_FALSE(a.sync.state.empty());
    const End again = train("c", sync, run, 40, a.state);
    EXPECT_EQ(again.seen.finishes.at(0).iteration, 40);
    EXPECT_EQ(again.weights, train("d", sync, run, 40, b.state).weights);
  }
}

// Rules of models: momenta at the server go on, what they have measured beside does not and is
// said.
TEST_F(SyncResumeTest, RulesGoOn) {
  SyncRun one;
  one.workers = 1;
  for (const std::string model : {"asgd", "nag_asgd", "multi_asgd", "lwp", "dc_asgd"}) {
    expect_resume_law("model: '" + model + "'", one);
  }
  for (const std::string model : {"gap_aware", "yellowfin", "dana_zero"}) {
    SCOPED_TRACE(model);
    const End first = train("first", "model: '" + model + "'", one, 5);
    const End end = train("second", "model: '" + model + "'", one, 10, first.state);
    EXPECT_EQ(end.seen.finishes.at(0).iteration, 10);
    EXPECT_EQ(end.seen.has_note("does not hold"), model != "dana_zero");
  }
}

TEST_F(SyncResumeTest, RatesOfWorkersGoOn) {
  SyncRun run;
  run.workers = 2;
  const std::string search = "lr_search_param { method: armijo every: 2 }";
  expect_resume_law(kBsp, run, search);
  const End saved = train("saved", kBsp, run, 5, "", search);
  ASSERT_EQ(saved.search.size(), 2u);
  EXPECT_GT(saved.search[0].searches, 0);
  EXPECT_NE(saved.search[0].log_multiplier, saved.search[1].log_multiplier);
}

}  // namespace
}  // namespace kinet
