// The solver's loop: the order of things, tests that cover the set once, stops of every kind,
// divergence.
#include "src/solver/solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/solver_helpers.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

// ---- the loop
// ------------------------------------------------------------------------------------

TEST_F(SolverTest, TrainsTestsDisplaysAndSnapshots) {
  TestRun r(solver_text(net(),
                        "base_lr: 0.5 momentum: 0.9 max_iter: 60 display: 20 test_interval: 30 "
                        "snapshot: 30 snapshot_prefix: 'snap/small' random_seed: 3"),
            options_);
  const FinishRecord end = r.run();
  EXPECT_EQ(end.reason, "max_iter");
  EXPECT_EQ(end.iteration, 60);
  ASSERT_EQ(r.seen.tests.size(), 3u);  // 0, 30, 60
  EXPECT_EQ(r.seen.tests[0].iteration, 0);
  EXPECT_EQ(r.seen.tests[2].iteration, 60);
  EXPECT_EQ(r.seen.tests[2].items, 7);
  EXPECT_EQ(r.seen.tests[2].coverage, "");
  EXPECT_EQ(r.seen.tests[2].outputs[0].name, "accuracy");
  EXPECT_EQ(r.seen.tests[2].outputs[0].value, 1);  // the classes are easy to tell apart
  ASSERT_EQ(r.seen.displays.size(), 4u);           // 0, 20, 40, 60
  EXPECT_EQ(r.seen.displays[1].iteration, 20);
  EXPECT_EQ(r.seen.displays[1].since_last, 20);
  EXPECT_GT(r.seen.displays[1].images_per_second, 0);
  EXPECT_NEAR(r.seen.displays[1].epoch, 20 * 4 / 23.0, 1e-12);
  EXPECT_LT(r.seen.displays[3].loss, r.seen.displays[0].loss / 4);
  ASSERT_EQ(r.seen.snapshots.size(), 2u);
  EXPECT_EQ(r.seen.snapshots[1].second, folder_ / "snap/small_iter_60.solverstate");
  EXPECT_TRUE(fs::exists(folder_ / "snap/small_iter_30.caffemodel"));
  ASSERT_EQ(r.seen.starts.size(), 1u);
  EXPECT_EQ(r.seen.starts[0].seed, 3u);
  EXPECT_FALSE(r.seen.starts[0].seed_chosen);
  EXPECT_EQ(r.seen.starts[0].train_items, 23);
  EXPECT_EQ(r.seen.starts[0].history, "empty");
}

// The last display comes after the last update, not between a gradient and its update.
TEST_F(SolverTest, EveryDisplayTimesWholeIterations) {
  double reads = 0;
  options_.now = [&] { return ++reads; };  // so every iteration takes the same time
  TestRun r(solver_text(net(), "base_lr: 0.1 max_iter: 3 display: 1 random_seed: 3 " +
                                   std::string(kNoSnapshot)),
            options_);
  r.run();
  ASSERT_EQ(r.seen.displays.size(), 4u);
  for (const size_t i : {1, 2, 3}) {
    EXPECT_EQ(r.seen.displays[i].since_last, 1) << i;
    EXPECT_EQ(r.seen.displays[i].seconds_since_last, r.seen.displays[1].seconds_since_last) << i;
  }
}

TEST_F(SolverTest, NamesCountUpdates) {  // D3
  TestRun r(solver_text(net(), "base_lr: 0.1 max_iter: 10 snapshot: 5 snapshot_prefix: 'm'"),
            options_);
  r.run();
  ASSERT_EQ(r.seen.snapshots.size(), 2u);
  EXPECT_EQ(r.seen.snapshots[0].first, 5);
  EXPECT_EQ(r.seen.snapshots[1].first, 10);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder_.str())) {
    files += entry.path().filename().string().starts_with("m_iter_");
  }
  EXPECT_EQ(files, 4);
}

TEST_F(SolverTest, NoIterationsIsNoUpdateAndOneSnapshot) {  // D3
  TestRun r(solver_text(net(), "base_lr: 0.1 max_iter: 0 snapshot: 5"), options_);
  const std::vector<float> before = state_of(*r.solver);
  EXPECT_EQ(r.run().iteration, 0);
  EXPECT_EQ(state_of(*r.solver), before);
  EXPECT_TRUE(r.seen.losses.empty());
  ASSERT_EQ(r.seen.snapshots.size(), 1u);
  EXPECT_EQ(r.seen.snapshots[0].first, 0);
}

TEST_F(SolverTest, AverageLossSmoothsTheDisplay) {
  TestRun r(solver_text(net(), "base_lr: 0.1 max_iter: 6 display: 5 average_loss: 3" + kNoSnapshot),
            options_);
  r.run();
  const auto& l = r.seen.losses;
  ASSERT_EQ(r.seen.displays.size(), 2u);
  EXPECT_DOUBLE_EQ(r.seen.displays[0].loss, l[0]);
  EXPECT_NEAR(r.seen.displays[1].loss, (l[3] + l[4] + l[5]) / 3, 1e-12);
}

TEST_F(SolverTest, SeedFromTheClockIsReportedAndRepeatsTheRun) {
  const std::string text = solver_text(net(), "base_lr: 0.1 max_iter: 3" + kNoSnapshot);
  TestRun first(text, options_);
  first.run();
  EXPECT_TRUE(first.seen.starts[0].seed_chosen);
  options_.seed = first.solver->seed();
  TestRun second(text, options_);
  second.run();
  EXPECT_FALSE(second.seen.starts[0].seed_chosen);
  EXPECT_EQ(state_of(*first.solver), state_of(*second.solver));
  options_.seed = first.solver->seed() + 1;
  TestRun third(text, options_);
  third.run();
  EXPECT_NE(state_of(*first.solver), state_of(*third.solver));
}

TEST_F(SolverTest, MaxEpochsEndsTheRun) {
  // 23 items, 4 a batch, 2 batches an update: 2 epochs are 46 / 8 = 5.75, so 6 updates.
  TestRun r(solver_text(net(), "base_lr: 0.1 max_epochs: 2 iter_size: 2" + kNoSnapshot), options_);
  const FinishRecord end = r.run();
  EXPECT_EQ(end.iteration, 6);
  EXPECT_EQ(end.reason, "max_epochs");
  TestRun both(solver_text(net(), "base_lr: 0.1 max_epochs: 2 max_iter: 3" + kNoSnapshot),
               options_);
  EXPECT_EQ(both.run().iteration, 3);
}

TEST_F(SolverTest, StopSnapshotsAndStopNowDoesNot) {
  const std::string text =
      solver_text(net(), "base_lr: 0.1 max_iter: 100 test_interval: 50 snapshot_prefix: 's'");
  TestRun stopped(text, options_);
  stopped.seen.after_iteration = [&](int64_t i) { stopped.control.stop = i == 7; };
  const FinishRecord end = stopped.run();
  EXPECT_EQ(end.iteration, 7);
  EXPECT_EQ(end.reason, "interrupted");
  EXPECT_EQ(end.last_snapshot, folder_ / "s_iter_7.solverstate");
  EXPECT_EQ(stopped.seen.tests.size(), 1u);  // at 0 alone: a stop does not wait for a test

  TestRun at_once(text, options_);
  at_once.seen.after_iteration = [&](int64_t i) { at_once.control.stop_now = i == 8; };
  EXPECT_EQ(at_once.run().last_snapshot, "");
  EXPECT_FALSE(fs::exists(folder_ / "s_iter_8.solverstate"));
}

TEST_F(SolverTest, SnapshotOnWishGoesOn) {
  TestRun r(solver_text(net(), "base_lr: 0.1 max_iter: 9 snapshot_prefix: 's'"), options_);
  r.seen.after_iteration = [&](int64_t i) { r.control.snapshot = i == 4; };
  EXPECT_EQ(r.run().iteration, 9);
  ASSERT_EQ(r.seen.snapshots.size(), 2u);
  EXPECT_EQ(r.seen.snapshots[0].first, 4);
}

// Passes its input on, and asks for a stop in the second batch of every test after the first.
class StopInTest : public Layer {
 public:
  static LayerType describe() {
    LayerType type;
    type.type = "StopInTest";
    type.min_tops = type.max_tops = 0;
    return type;
  }
  std::vector<Shape> reshape(const std::vector<Shape>&, WorkspacePlan&) override { return {}; }
  void forward(const Context& context, Tensors, Tensors) override {
    ++batches;
    if (context.pass == 1 && batches > 7 && control != nullptr) control->stop = true;
  }
  static inline SolverControl* control = nullptr;
  static inline int batches = 0;
};
KINET_REGISTER_LAYER(StopInTest);

// The test at iteration 3 ends after its second batch of seven, as if it had not begun.
TEST_F(SolverTest, StopWithinATestIsPrompt) {
  StopInTest::batches = 0;
  const std::string stopper =
      "layer { name: 's' type: 'StopInTest' bottom: 'label' include { phase: TEST } }\n";
  TestRun r(solver_text(net(kRelu + stopper, 4, 1),
                        "base_lr: 0.1 max_iter: 9 test_interval: 3 snapshot_prefix: 's'"),
            options_);
  StopInTest::control = &r.control;
  const FinishRecord end = r.run();
  StopInTest::control = nullptr;
  EXPECT_EQ(end.reason, "interrupted");
  EXPECT_EQ(end.iteration, 3);
  EXPECT_EQ(StopInTest::batches, 7 + 2);
  EXPECT_EQ(r.seen.tests.size(), 1u);
  EXPECT_EQ(end.last_snapshot, folder_ / "s_iter_3.solverstate");
}

TEST_F(SolverTest, EarlyStopEndsTheRun) {
  // With rate 0 nothing improves: tests at 0, 2, 4, 6; the best is the first.
  TestRun r(solver_text(net(),
                        "base_lr: 0 max_iter: 100 test_interval: 2 early_stop_param { patience: 3 "
                        "metric: 'loss' }" +
                            kNoSnapshot),
            options_);
  const FinishRecord end = r.run();
  EXPECT_EQ(end.iteration, 6);
  EXPECT_EQ(r.seen.tests.size(), 4u);
  EXPECT_CONTAINS(end.reason, "early stop: loss has not fallen below");
  EXPECT_CONTAINS(message_of([&] {
                    TestRun(solver_text(net(),
                                        "base_lr: 0 max_iter: 1 test_interval: 2 "
                                        "early_stop_param { metric: 'acuracy' }"),
                            options_);
                  }),
                  "did you mean 'accuracy'?");
}

// ---- tests cover the set once (B7)
// ---------------------------------------------------------------

TEST_F(SolverTest, AccuracyDoesNotDependOnTheBatchSize) {
  double accuracy = -1, loss = 0;
  for (int batch = 1; batch <= 9; ++batch) {
    TestRun r(solver_text(net(kRelu, 4, batch),
                          "base_lr: 0.1 max_iter: 1 test_interval: 1 random_seed: 5" + kNoSnapshot),
              options_);
    const TestRecord first = r.solver->test().at(0), second = r.solver->test().at(0);
    EXPECT_EQ(first.items, 7);
    EXPECT_EQ(first.set_items, 7);
    EXPECT_EQ(first.coverage, "");
    EXPECT_EQ(first.loss, second.loss);
    if (batch == 1) accuracy = first.outputs[0].value, loss = first.loss;
    EXPECT_NEAR(first.outputs[0].value, accuracy, 1e-6) << "batch " << batch;
    EXPECT_NEAR(first.loss, loss, 1e-5) << "batch " << batch;
    EXPECT_NEAR(std::round(accuracy * 7), accuracy * 7, 1e-5);
  }
}

TEST_F(SolverTest, TestIterSaysWhatItCovers) {
  const auto coverage = [&](int batches) {
    TestRun r(solver_text(net(), "base_lr: 0.1 max_iter: 1 test_interval: 1 test_iter: " +
                                     std::to_string(batches) + kNoSnapshot),
              options_);
    const TestRecord first = r.solver->test().at(0);
    EXPECT_EQ(first.items, 3 * batches);
    EXPECT_EQ(first.loss, r.solver->test().at(0).loss) << "every test starts at item 0";
    return first.coverage;
  };
  EXPECT_EQ(coverage(1), "1 batches of 3 = 3 of 7 items, 42.9 % of the set");
  EXPECT_CONTAINS(coverage(3), "3 batches of 3 = 9 of 7 items: some are counted more than once");
}

TEST_F(SolverTest, ManyTestNets) {
  const std::string tail = data_layer(folder_, "train", 5, "TEST") + classifier();
  TestRun r("train_net_param { " + data_layer(folder_, "train", 4, "TRAIN") + classifier() +
                "}\ntest_net_param { " + tail + "}\ntest_net_param { " +
                data_layer(folder_, "test", 2, "TEST") + classifier() +
                "}\nbase_lr: 0.1 max_iter: 1 test_interval: 1" + kNoSnapshot,
            options_);
  const std::vector<TestRecord> records = r.solver->test();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].items, 23);
  EXPECT_EQ(records[1].items, 7);
  EXPECT_EQ(records[1].net, 1);
}

// Caffe's TestInitTrainTestNets: one train net, two test nets told apart by stages.
TEST_F(SolverTest, StatesChooseLayers) {
  const std::string staged =
      "layer { name: 'quick' type: 'Silence' bottom: 'label' include { phase: TEST stage: 'a' } } "
      "layer { name: 'deep' type: 'Silence' bottom: 'label' include { phase: TEST min_level: 2 } } "
      "layer { name: 'only' type: 'Silence' bottom: 'label' include { stage: 'x' } }";
  TestRun r(solver_text(net(kRelu + staged),
                        "base_lr: 0.1 max_iter: 1 test_interval: 1 train_state { stage: 'x' }"
                        "test_state { stage: 'a' } test_state { level: 2 }" +
                            kNoSnapshot),
            options_);
  EXPECT_GE(r.solver->train_net().layer_index("only"), 0);
  EXPECT_LT(r.solver->train_net().layer_index("quick"), 0);
  EXPECT_GE(r.solver->test_net(0).layer_index("quick"), 0);
  EXPECT_LT(r.solver->test_net(0).layer_index("deep"), 0);
  EXPECT_GE(r.solver->test_net(1).layer_index("deep"), 0);
  EXPECT_LT(r.solver->test_net(1).layer_index("only"), 0);
}

TEST_F(SolverTest, ATestWithoutASetNeedsTestIter) {
  const std::string dummy =
      "layer { name: 'd' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { shape { "
      "dim: "
      "4 dim: 36 } shape { dim: 4 } } }" +
      classifier();
  const std::string fields = "base_lr: 0.1 max_iter: 1 test_interval: 1" + kNoSnapshot;
  EXPECT_CONTAINS(message_of([&] { TestRun(solver_text(dummy, fields), options_); }),
                  "give test_iter");
  TestRun r(solver_text(dummy, fields + " test_iter: 3"), options_);
  EXPECT_EQ(r.solver->test().at(0).items, 12);
  EXPECT_EQ(r.solver->test().at(0).set_items, 0);
  EXPECT_CONTAINS(message_of([&] {
                    TestRun(solver_text(dummy, "base_lr: 0.1 max_epochs: 1" + kNoSnapshot),
                            options_);
                  }),
                  "max_epochs needs");
}

// ---- divergence (B2)
// -----------------------------------------------------------------------------

TEST_F(SolverTest, DivergenceStopsNamesTheLayerAndKeepsTheSnapshot) {
  // Two layers without a ReLU, which could die and so hide the overflow.
  TestRun r(solver_text(net(""),
                        "base_lr: 1e10 momentum: 0.9 max_iter: 1000 snapshot: 1 random_seed: 1 "
                        "snapshot_prefix: 'nan'"),
            options_);
  std::string message;
  try {
    r.run();
    FAIL() << "a rate of 1e10 went unnoticed";
  } catch (const Error& error) {
    message = error.what();
    EXPECT_EQ(error.kind(), Error::Kind::kRuntime);
    EXPECT_EQ(error.exit_status(), 1);
  }
  EXPECT_LT(r.solver->iteration(), 20);
  EXPECT_CONTAINS(message, "not finite");
  EXPECT_CONTAINS(message, "ip");  // the layer
  EXPECT_CONTAINS(message, "base_lr");
  ASSERT_FALSE(r.seen.snapshots.empty());
  EXPECT_CONTAINS(message, r.seen.snapshots.back().second);
  for (const auto& [iteration, path] : r.seen.snapshots) {
    SolverOptions again = options_;
    again.resume = path;
    TestRun resumed(solver_text(net(""), "base_lr: 0.1 max_iter: 1000 momentum: 0.9"), again);
    for (const float x : state_of(*resumed.solver)) ASSERT_TRUE(std::isfinite(x)) << path;
  }
}

TEST_F(SolverTest, ANonFiniteGradientIsNotApplied) {
  const std::string norm = "layer { name: 'bn' type: 'BatchNorm' bottom: 'ip1' top: 'ip1' }\n";
  TestRun r(solver_text(net(norm), "base_lr: 0.1 max_iter: 10" + kNoSnapshot), options_);
  r.solver->step();
  const int ip2 = r.solver->train_net().layer_index("ip2");
  float& weight = r.solver->train_net().layer(ip2).blobs()[0].data()[4];
  const float good = weight;
  const std::vector<float> before = state_of(*r.solver);
  const int64_t position = r.solver->train_net().batch_sources()[0]->position();
  weight = std::numeric_limits<float>::infinity();
  EXPECT_CONTAINS(message_of([&] { r.solver->step(); }), "layer 'ip2' (InnerProduct)");
  EXPECT_CONTAINS(message_of([&] { r.solver->snapshot(); }), "no snapshot is written");
  weight = good;
  EXPECT_EQ(state_of(*r.solver), before);
  EXPECT_EQ(r.solver->iteration(), 1);
  EXPECT_EQ(r.solver->train_net().batch_sources()[0]->position(), position);
}

}  // namespace
}  // namespace kinet
