// ctest: labels=unit,core,threads timeout=120
//
// Gradients and tests of a net in a virtual cluster have the bits of real workers, whichever lane
// computes them and whatever it computed before.
#include "src/sim/net_problem.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/solver_helpers.h"

namespace kinet {
namespace {

class NetProblemTest : public SolverTest {
 protected:
  // Random numbers in a pass (Dropout), statistics (BatchNorm), a parameter that learns faster.
  std::string text(const std::string& fields = "") const {
    const std::string between =
        "layer { name: 'bn' type: 'BatchNorm' bottom: 'ip1' top: 'bn' }\n"
        "layer { name: 'relu1' type: 'ReLU' bottom: 'bn' top: 'bn' }\n"
        "layer { name: 'drop' type: 'Dropout' bottom: 'bn' top: 'dropped' }\n"
        "layer { name: 'ipm' type: 'InnerProduct' bottom: 'dropped' top: 'ipm' param { lr_mult: 2 "
        "} inner_product_param { num_output: 8 weight_filler { type: 'xavier' } } }\n";
    std::string all = net(between);
    const size_t at = all.find("bottom: 'ip1' top: 'ip2'");
    all.replace(at, 24, "bottom: 'ipm' top: 'ip2'");
    return solver_text(
        all, "base_lr: 0.5 random_seed: 3 max_iter: 100 test_interval: 10 " + kNoSnapshot + fields);
  }
  static NetProblem problem(const std::string& text, int workers, int lanes = 1) {
    NetProblemOptions options;
    options.seed = 3;
    options.workers = workers;
    options.lanes = lanes;
    return {SolverConfig::parse(text, "solver.prototxt"), options};
  }
  static std::vector<float> copy(std::span<const float> values) {
    return {values.begin(), values.end()};
  }
};

// A real solver that is worker `worker` of `workers`, alone, step by step: after each its gradient
// arena holds the sum over micro-batches, which for two is an exact multiple of the mean.
void expect_same_gradients(const std::string& text, NetProblem& problem, int worker, int workers,
                           int iter_size = 1) {
  SolverOptions options;
  options.worker = worker;
  options.workers = workers;
  TestRun run(text, options);
  const auto parts = static_cast<float>(iter_size);
  std::vector<float> gradient(problem.floats());
  for (int64_t batch = 0; batch < 8; ++batch) {
    const auto arena = run.solver->train_net().parameter_arena();
    const std::vector<float> weights(arena.begin(), arena.end());
    const auto statistics = run.solver->train_net().buffer_arena();
    std::vector<float> buffers(statistics.begin(), statistics.end());
    run.solver->step();
    const double loss = problem.gradient(0, weights, buffers, worker, workers, batch, gradient);
    EXPECT_EQ(loss, run.solver->loss());
    EXPECT_TRUE(std::equal(buffers.begin(), buffers.end(), statistics.begin()));
    const auto sum = run.solver->train_net().gradient_arena();
    for (size_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(gradient[i] * parts, sum[i]) << i;
  }
}

TEST_F(NetProblemTest, GradientsAreThoseOfARealWorker) {
  NetProblem p = problem(text(), 4);
  expect_same_gradients(text(), p, 0, 4);
  expect_same_gradients(text(), p, 3, 4);
  const std::string twice = text("iter_size: 2");
  NetProblem q = problem(twice, 2);
  expect_same_gradients(twice, q, 1, 2, 2);
  EXPECT_EQ(q.batch_size(), 8);
}

TEST_F(NetProblemTest, AFixedGlobalBatchIsDividedAsInARealRun) {
  const std::string fixed = text("sync_param { fixed_global_batch: true }");
  NetProblem p = problem(fixed, 2);
  EXPECT_EQ(p.batch_size(), 2);
  expect_same_gradients(fixed, p, 1, 2);
  std::vector<float> weights(p.floats()), buffers(p.buffers()), gradient(p.floats());
  EXPECT_CONTAINS(message_of([&] { p.gradient(0, weights, buffers, 0, 3, 0, gradient); }),
                  "divided among 2 workers, not 3");
}

TEST_F(NetProblemTest, StartsAndTestsAsASolverDoes) {
  TestRun run(text());
  NetProblem p = problem(text(), 4);
  std::vector<float> weights(p.floats()), buffers(p.buffers());
  p.start(weights, buffers);
  EXPECT_EQ(weights, copy(run.solver->train_net().parameter_arena()));
  EXPECT_EQ(buffers, copy(run.solver->train_net().buffer_arena()));
  for (int i = 0; i < 5; ++i) run.solver->step();
  weights = copy(run.solver->train_net().parameter_arena());
  buffers = copy(run.solver->train_net().buffer_arena());
  std::vector<float> gradient(p.floats()), statistics = buffers;
  p.gradient(0, weights, statistics, 1, 4, 2, gradient);  // leaves no trace
  const ProblemScore score = p.test(0, weights, buffers);
  const std::vector<TestRecord> records = run.solver->test();
  EXPECT_EQ(score.loss, records.front().loss);
  ASSERT_EQ(records.front().outputs.front().name, "accuracy");
  EXPECT_EQ(score.accuracy, records.front().outputs.front().value);
  EXPECT_EQ(p.items(), 23);
  EXPECT_CONTAINS(p.describe(), "small, ");
}

TEST_F(NetProblemTest, SegmentsAreThoseOfTheNet) {
  const NetProblem p = problem(text(), 2);
  size_t faster = 0, count = 0;
  for (const ParameterSegment& s : p.segments()) {
    faster += s.lr_mult == 2;
    count += s.count;
  }
  EXPECT_EQ(faster, 1U);
  EXPECT_LE(count, p.floats());
  EXPECT_GT(p.buffers(), 0U);
}

// Every (worker, batch) once, in two orders, by one lane and by three threads; weights that lie
// anywhere.
TEST_F(NetProblemTest, LanesAndOrderChangeNothing) {
  constexpr int kWorkers = 5, kBatches = 6, kLanes = 3;
  NetProblem one = problem(text(), kWorkers), many = problem(text(), kWorkers, kLanes);
  std::vector<float> start(one.floats()), buffers(one.buffers());
  one.start(start, buffers);
  const auto compute = [&](NetProblem& p, int lane, int job, std::vector<float>& out) {
    std::vector<float> memory(start.size() + 1 + job % 2), own = buffers;
    std::span<float> weights = std::span(memory).subspan(memory.size() - start.size());
    std::copy(start.begin(), start.end(), weights.begin());
    out.resize(start.size());
    const double loss =
        p.gradient(lane, weights, own, job % kWorkers, kWorkers, job / kWorkers, out);
    EXPECT_EQ(loss, p.loss(lane, weights, buffers, job % kWorkers, kWorkers, job / kWorkers));
    out.insert(out.end(), own.begin(), own.end());
    out.push_back(static_cast<float>(loss));
  };
  constexpr int kJobs = kWorkers * kBatches;
  std::vector<std::vector<float>> expected(kJobs), got(kJobs);
  for (int job = kJobs - 1; job >= 0; --job) compute(one, 0, job, expected[job]);
  std::vector<std::thread> threads;
  for (int lane = 0; lane < kLanes; ++lane) {
    threads.emplace_back([&, lane] {
      for (int job = lane; job < kJobs; job += kLanes) {
        compute(many, lane, job, got[job]);
        many.test(lane, start, buffers);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int job = 0; job < kJobs; ++job) EXPECT_EQ(expected[job], got[job]) << job;
  EXPECT_NE(expected[0], expected[1]);
}

TEST_F(NetProblemTest, NetsThatCannotBeTrainedOrTestedAreRefused) {
  const std::string no_test = solver_text(data_layer(folder_, "train", 4, "TRAIN") + classifier(),
                                          "base_lr: 0.1 max_iter: 5");
  NetProblem p = problem(no_test, 2);
  std::vector<float> weights(p.floats()), buffers(p.buffers());
  EXPECT_CONTAINS(message_of([&] { p.test(0, weights, buffers); }), "no test net");
  const std::string no_loss =
      solver_text(data_layer(folder_, "train", 4, "TRAIN"), "base_lr: 0.1 max_iter: 5");
  EXPECT_CONTAINS(message_of([&] { problem(no_loss, 2); }), "nothing to learn");
}

}  // namespace
}  // namespace kinet
