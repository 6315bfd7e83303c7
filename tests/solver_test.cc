// The solver: files and their errors, the loop's order, golden runs through real nets, tests that
// cover the set once, stops of every kind.
#include "src/solver/solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/solver_helpers.h"

namespace kinet {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

const std::string kNoSnapshot = " snapshot_after_train: false ";

// Every test runs in a folder of its own with 23 images to train on and 7 to test.
class SolverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_, "train", 23);
    write_images(folder_, "test", 7);
    options_.output_folder = folder_.str();
  }

  std::string net(const std::string& between = kRelu, int train_batch = 4,
                  int test_batch = 3) const {
    return data_layer(folder_, "train", train_batch, "TRAIN") +
           data_layer(folder_, "test", test_batch, "TEST") + classifier(between);
  }

  TemporaryFolder folder_;
  SolverOptions options_;
};

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

// Two test nets; the user stops after the first: the test does not count, the second is not run.
TEST_F(SolverTest, StopWithinATestIsPrompt) {
  TestRun r(solver_text(net(kRelu, 4, 1),
                        "base_lr: 0.1 max_iter: 9 test_interval: 3 test_state {} "
                        "test_state {} snapshot_prefix: 's'"),
            options_);
  r.seen.after_iteration = [&](int64_t i) { r.control.stop = i == 3; };
  r.run();
  EXPECT_EQ(r.seen.tests.size(), 2u);  // both nets at iteration 0
  EXPECT_EQ(r.seen.finishes.at(0).iteration, 3);
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

// ---- gradients
// -----------------------------------------------------------------------------------

TEST_F(SolverTest, IterSizeIsABiggerBatch) {  // D7, section 9 EverythingAccum
  for (const std::string type :
       {"SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW"}) {
    const std::string momentum = type == "AdaGrad" || type == "RMSProp" ? "" : " momentum: 0.9";
    // delta keeps the adaptive rules from blowing up rounding where a gradient is nearly zero.
    const std::string rest =
        "base_lr: 0.05 weight_decay: 0.5 max_iter: 4 delta: 1e-3 random_seed: 2 "
        "clip_gradients: 0.3 type: '" +
        type + "'" + momentum + kNoSnapshot;
    TestRun big(solver_text(net(kRelu, 8), rest), options_);
    TestRun small(solver_text(net(kRelu, 2), rest + " iter_size: 4"), options_);
    big.run();
    small.run();
    const auto a = big.solver->train_net().parameter_arena();
    const auto b = small.solver->train_net().parameter_arena();
    ASSERT_EQ(a.size(), b.size());
    double largest = 0;
    for (const float x : a) largest = std::max<double>(largest, std::abs(x));
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-5 * largest) << type << " " << i;
    EXPECT_NEAR(big.solver->loss(), small.solver->loss(), 1e-5 * big.solver->loss()) << type;
  }
}

TEST_F(SolverTest, ClippingBoundsTheAveragedGradient) {
  // Without momentum an update is rate * gradient, so its norm is 0.1 * 0.01 wherever it is
  // clipped.
  TestRun r(solver_text(net(),
                        "base_lr: 0.1 max_iter: 1 iter_size: 3 clip_gradients: 0.01" + kNoSnapshot),
            options_);
  const std::span<float> w = r.solver->train_net().parameter_arena();
  const std::vector<float> before(w.begin(), w.end());
  r.solver->step();
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) sum += std::pow(double{w[i]} - before[i], 2);
  EXPECT_NEAR(std::sqrt(sum), 0.001, 1e-6);
}

// C2: layers that do not take part in learning change nothing.
TEST_F(SolverTest, MetricsAndZeroWeightLossesDoNotTouchTraining) {
  const std::string rest = "base_lr: 0.2 momentum: 0.9 max_iter: 20 random_seed: 1" + kNoSnapshot;
  const auto weights = [&](const std::string& extra) {
    TestRun r(solver_text(net() + extra, rest), options_);
    r.run();
    const auto w = r.solver->train_net().parameter_arena();
    return std::vector<float>(w.begin(), w.end());
  };
  const std::vector<float> plain = weights("");
  EXPECT_EQ(plain,
            weights("layer { name: 'a' type: 'Accuracy' bottom: 'ip2' bottom: 'label' top: 'a' "
                    "include { phase: TRAIN } }"));
  EXPECT_EQ(plain,
            weights("layer { name: 'z' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' "
                    "top: 'z' loss_weight: 0 include { phase: TRAIN } }"));
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
  TestRun r(solver_text(net(), "base_lr: 0.1 max_iter: 10" + kNoSnapshot), options_);
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

// ---- golden runs through a real net
// --------------------------------------------------------------

const Json& golden() {
  static const Json json = [] {
    std::ifstream file(KINET_SOURCE_DIR "/tests/golden/reference.json");
    return Json::parse(file)["solvers"];
  }();
  return json;
}

// Gives mini-batch number `pass` (modulo 8) of the golden problem.
class GoldenBatches : public Layer {
 public:
  static LayerType describe() {
    LayerType type;
    type.type = "GoldenBatches";
    type.min_bottoms = type.max_bottoms = 0;
    type.min_tops = type.max_tops = 2;
    type.is_data = true;
    return type;
  }
  std::vector<Shape> reshape(const std::vector<Shape>&, WorkspacePlan&) override {
    return {{4, 6}, {4, 1}};
  }
  void forward(const Context& context, Tensors, Tensors tops) override {
    const char* names[] = {"data", "targets"};
    for (size_t t = 0; t < 2; ++t) {
      const auto all = golden()["problem"][names[t]]["data"].get<std::vector<float>>();
      const int64_t n = tops[t]->count();
      std::copy_n(all.begin() + context.pass % 8 * n, n, tops[t]->data());
    }
  }
};
KINET_REGISTER_LAYER(GoldenBatches);

std::string golden_fields(const Json& run) {
  const Json& s = run["settings"];
  const double last = s["lr_per_iter"].back(), first = s["lr_per_iter"].front();
  std::string text =
      fmt::format("type: '{}' base_lr: {} max_iter: 5 ", run["type"].get<std::string>(), first);
  if (first != last) text += "lr_policy: 'inv' gamma: 0.1 power: 0.75 ";
  const std::pair<const char*, const char*> kNames[] = {
      {"mom", "momentum"}, {"wd", "weight_decay"},     {"rms", "rms_decay"},
      {"delta", "delta"},  {"iter_size", "iter_size"}, {"clip", "clip_gradients"}};
  for (const auto& [theirs, ours] : kNames) {
    if (s.contains(theirs)) text += fmt::format("{}: {} ", ours, s[theirs].dump());
  }
  if (s.contains("reg")) text += "regularization_type: 'L1' ";
  return text + kNoSnapshot;
}

TEST(SolverGolden, RunsThroughANet) {
  for (const Json& run : golden()["runs"]) {
    SCOPED_TRACE(run["name"].get<std::string>());
    const Json& s = run["settings"];
    std::string params;
    for (size_t i = 0; i < 2; ++i) {
      params += fmt::format("param {{ lr_mult: {} decay_mult: {} }} ",
                            s.contains("lr_mult") ? s["lr_mult"][i].dump() : "1",
                            s.contains("decay_mult") ? s["decay_mult"][i].dump() : "1");
    }
    TestRun r(solver_text(
        "layer { name: 'd' type: 'GoldenBatches' top: 'x' top: 'y' } layer { name: 'ip' "
        "type: 'InnerProduct' bottom: 'x' top: 'ip' " +
            params +
            "inner_product_param { num_output: 1 } } layer { name: 'loss' type: "
            "'EuclideanLoss' bottom: 'ip' bottom: 'y' top: 'loss' }",
        golden_fields(run)));
    std::vector<Tensor>& blobs = r.solver->train_net().layer(1).blobs();
    const char* names[] = {"weights", "bias"};
    for (size_t b = 0; b < 2; ++b) {
      const auto start = golden()["problem"][names[b]]["data"].get<std::vector<float>>();
      std::copy(start.begin(), start.end(), blobs[b].data());
    }
    for (size_t it = 0; it < 5; ++it) {
      r.solver->step();
      EXPECT_NEAR(r.solver->loss(), run["losses"][it], 1e-4 * run["losses"][it].get<double>());
      for (size_t b = 0; b < 2; ++b) {
        const auto expected = run["params_after_iter"][it][b]["data"].get<std::vector<float>>();
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(blobs[b].data()[i], expected[i],
                      1e-4 * std::max(1.0F, std::abs(expected[i])));
        }
      }
    }
  }
}

}  // namespace
}  // namespace kinet
