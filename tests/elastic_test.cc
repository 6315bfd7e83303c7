// What a run with servers does with gradients and weights that are not finite, with a batch that is
// shared, and what it says of its workers in the end. Ranks are threads.
// ctest: labels=unit,core,threads timeout=300
#include <gtest/gtest.h>

#include <cmath>

#include "src/solver/global_batch.h"
#include "src/solver/worker_table.h"
#include "tests/sync_ranks.h"

namespace kinet {
namespace {

// In place: leaves everything as it is, but for the mini-batches of one worker in [from, to).
const MessageType& poison_fields() {
  static const MessageType type{
      "poison_param",
      "which mini-batches are spoilt",
      {uint_field("workers", "1", "of the run"), uint_field("worker", "0", "whose"),
       uint_field("from", "0", "the first"), uint_field("to", "0", "behind the last")}};
  return type;
}

class Poison : public Layer {
 public:
  static LayerType describe() {
    LayerType type;
    type.type = "Poison";
    type.help = "a test's source of NaN";
    type.fields = {message_field("poison_param", poison_fields(), "of Poison")};
    type.in_place = true;
    return type;
  }
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) override {
    return bottoms;
  }
  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    std::copy_n(bottoms[0]->data(), tops[0]->count(), tops[0]->data());
    const Params p = params("poison_param");
    const int64_t batch = context.pass / p.get_int("workers");
    const bool spoilt = context.phase == Phase::kTrain &&
                        context.pass % p.get_int("workers") == p.get_int("worker") &&
                        batch >= p.get_int("from") && batch < p.get_int("to");
    if (spoilt) tops[0]->data()[0] = NAN;
  }
  void backward(const Context&, Tensors tops, Tensors bottoms, const BackwardMask& mask) override {
    if (mask.bottom[0]) std::copy_n(tops[0]->diff(), tops[0]->count(), bottoms[0]->diff());
  }
};
KINET_REGISTER_LAYER(Poison);

class ElasticTest : public SolverTest {
 protected:
  // `poison`: fields of poison_param, of a run of 3 workers.
  std::string text(const std::string& sync, const std::string& poison, int iterations) const {
    const std::string layer =
        "layer { name: 'poison' type: 'Poison' bottom: 'ip1' top: 'ip1' poison_param { workers: "
        "3 " +
        poison + " } }\n";
    return solver_text(net(kRelu + layer),
                       fmt::format("base_lr: 0.05 momentum: 0.9 max_iter: {} random_seed: 5 {} "
                                   "sync_param {{ {} }}",
                                   iterations, kNoSnapshot, sync));
  }
  std::vector<SyncRank> run(const std::string& text, int servers = 1) {
    SyncRun how;
    how.servers = servers;
    how.workers = 3;
    how.transport = "sim";  // nobody is starved there
    return run_sync(text, how, options_);
  }
};

bool finite(Solver& solver) {
  for (const float w : solver.train_net().parameter_arena()) {
    if (!std::isfinite(w)) return false;
  }
  return true;
}

TEST_F(ElasticTest, GradientsThatAreNotFiniteAreDroppedCountedAndToldOnce) {
  for (const std::string sync :
       {"model: 'bsp' servers: 1", "model: 'asp'", "model: 'k_sync'", "model: 'momentum_k_sync'",
        "model: 'momentum_k_sync' absorb: DROP", "model: 'local_sgd' local_steps: 2",
        "model: 'bsp' servers: 1 compress: TOPK compress_ratio: 0.1",
        "model: 'asp' compress: SIGN"}) {
    SCOPED_TRACE(sync);
    const auto ranks = run(text(sync, "worker: 1 from: 4 to: 7", 40));
    for (const SyncRank& r : ranks) ASSERT_EQ(r.error, "");
    const Recorder& seen = ranks[0].run->seen;
    int told = 0;
    for (const std::string& warning : seen.warnings) {
      told += warning.find("rank 2 (") == 0 &&
              warning.find("is not finite and is dropped") != std::string::npos;
    }
    EXPECT_EQ(told, 1);
    EXPECT_EQ(seen.warnings.size(), 1u);
    EXPECT_TRUE(seen.has_note("not finite"));  // in the table of workers
    EXPECT_GE(ranks[0].end.iteration, 40);
    EXPECT_LT(ranks[0].end.loss, 1.0);
    EXPECT_TRUE(finite(*ranks[0].run->solver));
  }
}

// The last parameter, which is in the slice of the last server.
void spoil(Net& net) { net.parameter_arena()[net.parameters().back().offset] = NAN; }

// With one server that waits for all, a worker whose data is bad for ever holds up the round.
TEST_F(ElasticTest, TooManyInARowEndTheRunAndNameTheWorker) {
  const auto ranks =
      run(text("model: 'bsp' servers: 1 max_bad: 5", "worker: 2 from: 4 to: 1000000", 1000));
  EXPECT_NE(ranks[0].error.find("6 gradients in a row are not finite (max_bad 5), the last one of "
                                "rank 3 ("),
            std::string::npos)
      << ranks[0].error;
  for (const SyncRank& r : ranks) EXPECT_NE(r.error, "");  // nobody is left behind
  EXPECT_TRUE(finite(*ranks[0].run->solver));
}

TEST_F(ElasticTest, WeightsThatAreNotFiniteEndTheRun) {
  for (const int servers : {1, 2}) {
    SyncRun how;
    how.servers = servers;
    how.workers = 3;
    const std::string sync = fmt::format("model: 'momentum_k_sync' servers: {}", servers);
    const auto ranks = run_sync(text(sync, "", 1000), how, options_, [&](Rank rank, TestRun& run) {
      if (rank == servers - 1) spoil(run.solver->train_net());
    });
    EXPECT_NE(ranks[0].error.find("the weights of version 0 are not finite"), std::string::npos)
        << ranks[0].error;
    EXPECT_TRUE(ranks[0].run->seen.snapshots.empty());
  }
}

// ---- fixed_global_batch -------------------------------------------------------------------------

class GlobalBatch : public SolverTest {
 protected:
  std::vector<SyncRank> ranks_of(int workers, int servers, int batch) {
    SyncRun how;
    how.servers = servers;
    how.workers = workers;
    const std::string sync =
        fmt::format("model: 'bsp' servers: {} fixed_global_batch: true", servers);
    const std::string text = solver_text(
        net(kRelu, batch), fmt::format("base_lr: 0.05 momentum: 0.9 max_iter: 5 random_seed: 5 {} "
                                       "sync_param {{ {} }}",
                                       kNoSnapshot, sync));
    return run_sync(text, how, options_);
  }

  std::vector<float> weights_of(int workers, int servers) {
    const auto ranks = ranks_of(workers, servers, 8);
    for (const SyncRank& r : ranks) {
      if (!r.error.empty()) throw Error(r.error);
    }
    const StartRecord& start = ranks[0].run->seen.starts.front();
    EXPECT_EQ(start.batch * start.workers, 8);
    const std::span<float> w = ranks[0].run->solver->train_net().parameter_arena();
    return {w.begin(), w.end()};
  }
};

TEST_F(GlobalBatch, AnyNumberOfWorkersGivesTheSameWeights) {
  const std::vector<float> one = weights_of(1, 0);
  for (const int servers : {0, 1}) {
    for (const int workers : {2, 4}) {
      const std::vector<float> several = weights_of(workers, servers);
      double difference = 0, size = 0;
      for (size_t i = 0; i < one.size(); ++i) {
        difference += std::pow(several[i] - one[i], 2);
        size += std::pow(one[i], 2);
      }
      EXPECT_LT(std::sqrt(difference / size), 1e-5) << workers << " workers, " << servers;
    }
  }
}

// Each rank finds the fault by itself; one that is slower may see its peer go before that.
TEST_F(GlobalBatch, ABatchThatCannotBeSharedIsASetUpError) {
  int told = 0;
  for (const SyncRank& rank : ranks_of(3, 0, 8)) {
    const std::string& error = rank.error;
    EXPECT_NE(error, "");
    if (error.find("was lost while the ranks connected") != std::string::npos) continue;
    EXPECT_NE(error.find("batch_size 8 cannot be divided among 3 workers"), std::string::npos)
        << error;
    EXPECT_EQ(error.find("solver.prototxt:"), 0u) << error;
    ++told;
  }
  EXPECT_GE(told, 1);
}

TEST(IterationRule, SaysWhatAGradientWeighs) {
  EXPECT_EQ(iteration_rule("bsp", "LOOKAHEAD", 0, 4).find("an iteration applies the mean of 4"),
            0u);
  EXPECT_EQ(iteration_rule("momentum_k_sync", "LOOKAHEAD", 1, 4)
                .find("an iteration is 4 gradients, each of weight 1/4"),
            0u);
  EXPECT_EQ(iteration_rule("k_sync", "LOOKAHEAD", 1, 4).find("an iteration is a round"), 0u);
}

// ---- the table of workers -----------------------------------------------------------------------

WorkerBook book(const std::string& name, int64_t applied, double compute, double waited) {
  WorkerBook b;
  b.name = name;
  b.applied = applied;
  b.compute_seconds = compute;
  b.waited_seconds = waited;
  return b;
}

TEST(WorkerTable, TellsWhatEachDidAndNamesTheSlowOne) {
  std::vector<WorkerBook> books{book("rank 1", 1000, 1, 3), book("rank 2", 1000, 1.5, 0.5),
                                book("rank 3", 90, 1, 0)};
  books[1].bad = 2;
  books[2].dropped = 10;
  books[2].losses = 1;
  const std::vector<std::string> lines = worker_lines(books);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0],
            "worker 0 (rank 1): 1,000 gradients applied, 1 ms each, waiting 75 % of its time");
  EXPECT_NE(lines[1].find("2 not finite"), std::string::npos);
  EXPECT_NE(lines[2].find("90 gradients applied, 10 dropped as too late, 10 ms each, waiting 0 % "
                          "of its time, lost once"),
            std::string::npos)
      << lines[2];
  EXPECT_EQ(lines[3],
            "worker 2 (rank 3) is slow: 10 ms a gradient, the median worker takes 1.5 ms");
}

TEST(WorkerTable, NobodyIsSlowWhereAllAreAlike) {
  const std::vector<WorkerBook> books{book("a", 10, 1, 0), book("b", 10, 1.9, 0)};
  EXPECT_EQ(worker_lines(books).size(), 2u);
  EXPECT_EQ(worker_lines(std::vector<WorkerBook>(1)).front(), "worker 0 never came");
}

}  // namespace
}  // namespace kinet
