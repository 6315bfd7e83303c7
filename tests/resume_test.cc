// The resume law: stopping at any iteration and going on gives the same losses and the same
// weights, bit for bit, as never stopping (D1, D6); and what a resume says and refuses.
#include <gtest/gtest.h>

#include <filesystem>

#include "src/base/files.h"
#include "src/proto/kinet/solverstate.pb.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

struct Reading {
  int threads = 1, prefetch = 4;
};

class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_, "train", 10);  // batch 3: batches run over the end of an epoch
    write_images(folder_, "test", 7);
    options_.output_folder = folder_.str();
  }

  // Shuffle, mirror and crop by random numbers, dropout.
  std::string net(const Reading& how) const {
    return data_layer(
               folder_, "train", 3, "TRAIN",
               fmt::format("shuffle: true threads: {} prefetch: {}", how.threads, how.prefetch),
               "mirror: true crop_size: 5") +
           data_layer(folder_, "test", 4, "TEST", "", "crop_size: 5") +
           classifier(kRelu +
                      "layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'ip1' "
                      "dropout_param { dropout_ratio: 0.4 } }\n");
  }
  static std::string fields(const std::string& type, int iter_size, int max_iter) {
    const bool momentum = type != "AdaGrad" && type != "RMSProp";
    return fmt::format(
        "type: '{}' base_lr: 0.05 lr_policy: 'inv' gamma: 0.01 power: 0.75 weight_decay: 0.01 "
        "{} iter_size: {} max_iter: {} test_interval: 4 average_loss: 5 display: 1 "
        "random_seed: 11 snapshot_prefix: 'r'",
        type, momentum ? "momentum: 0.9" : "", iter_size, max_iter);
  }

  // Losses of iterations 6 to 9, then the state after 10.
  struct Outcome {
    std::vector<double> losses, displayed;
    std::vector<float> state;
  };
  static Outcome outcome(TestRun& r, size_t last) {
    Outcome o;
    o.losses.assign(r.seen.losses.end() - static_cast<int64_t>(last), r.seen.losses.end());
    for (const DisplayRecord& d : r.seen.displays) o.displayed.push_back(d.loss);
    o.displayed.erase(o.displayed.begin(), o.displayed.end() - static_cast<int64_t>(last));
    o.state = state_of(*r.solver);
    return o;
  }

  Outcome unbroken(const std::string& type, int iter_size) {
    TestRun r(solver_text(net({}), fields(type, iter_size, 10)), options_);
    r.run();
    return outcome(r, 4);
  }
  // Stops after `at` updates by the end of the run or by the user, in a new process as it were.
  Outcome broken(const std::string& type, int iter_size, int at, const Reading& before,
                 const Reading& after) {
    TestRun first(solver_text(net(before), fields(type, iter_size, 10)), options_);
    first.seen.after_iteration = [&](int64_t i) { first.control.stop = i == at; };
    const std::string state = first.run().last_snapshot;
    SolverOptions options = options_;
    options.resume = state;
    TestRun second(solver_text(net(after), fields(type, iter_size, 10)), options);
    EXPECT_EQ(second.solver->iteration(), at);
    second.run();
    EXPECT_EQ(second.seen.starts[0].iteration, at);
    EXPECT_CONTAINS(second.seen.starts[0].history, "restored");
    return outcome(second, 4);
  }
  static void expect_same(const Outcome& a, const Outcome& b) {
    EXPECT_EQ(a.losses, b.losses);
    EXPECT_EQ(a.displayed, b.displayed);
    EXPECT_TRUE(a.state == b.state) << "weights or history differ";
  }

  TemporaryFolder folder_;
  SolverOptions options_;
};

TEST_F(ResumeTest, TheLawHoldsForEveryWayOfReading) {
  for (const int iter_size : {1, 3}) {
    const Outcome whole = unbroken("SGD", iter_size);
    for (const Reading& how :
         {Reading{1, 1}, Reading{1, 8}, Reading{4, 8}, Reading{4, 1}, Reading{1, 0}}) {
      SCOPED_TRACE(
          fmt::format("iter_size {}, {} threads, depth {}", iter_size, how.threads, how.prefetch));
      expect_same(whole, broken("SGD", iter_size, 6, how, how));
    }
    expect_same(whole, broken("SGD", iter_size, 6, {4, 8}, {1, 1}));
  }
}

TEST_F(ResumeTest, TheLawHoldsAtEveryIteration) {
  const Outcome whole = unbroken("SGD", 3);
  for (int at = 1; at <= 6; ++at) {
    SCOPED_TRACE(at);
    expect_same(whole, broken("SGD", 3, at, {2, 4}, {2, 4}));
  }
}

TEST_F(ResumeTest, TheLawHoldsForEverySolver) {
  for (const char* type : {"Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW"}) {
    SCOPED_TRACE(type);
    expect_same(unbroken(type, 1), broken(type, 1, 6, {}, {}));
  }
}

TEST_F(ResumeTest, TheLawHoldsForBatchNormAndSharedWeights) {
  const std::string data = data_layer(folder_, "train", 3, "TRAIN", "shuffle: true");
  const std::string param = "param { name: 'w' } param { name: 'b' } ";
  const std::string full =
      "type: 'InnerProduct' inner_product_param { num_output: 6 weight_filler { "
      "type: 'xavier' } } ";
  const std::string net =
      data + "layer { name: 'p0' bottom: 'data' top: 'p0' " + full +
      "}\n"
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'p0' top: 'bn' }\n"
      "layer { name: 'p1' bottom: 'bn' top: 'p1' " +
      param + full +
      "}\n"
      "layer { name: 'p2' bottom: 'p1' top: 'p2' " +
      param + full +
      "}\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'p2' bottom: 'label' top: 'loss' }\n";
  const std::string rest =
      "base_lr: 0.05 momentum: 0.9 random_seed: 3 max_iter: 9 snapshot: 4 "
      "snapshot_prefix: 'b'";
  TestRun whole(solver_text(net, rest), options_);
  whole.run();
  SolverOptions options = options_;
  options.resume = folder_ / "b_iter_4.solverstate";
  TestRun second(solver_text(net, rest), options);
  second.run();
  EXPECT_TRUE(state_of(*whole.solver) == state_of(*second.solver));
  Net& trained = second.solver->train_net();
  EXPECT_EQ(trained.layer(trained.layer_index("p1")).blobs()[0].data(),
            trained.layer(trained.layer_index("p2")).blobs()[0].data());
}

// Early stop counts on: a run that was stopped between two tests ends at the same test.
TEST_F(ResumeTest, EarlyStopGoesOnCounting) {
  const std::string text = solver_text(net({}),
                                       "base_lr: 0 max_iter: 50 test_interval: 2 random_seed: "
                                       "1 snapshot_prefix: 'e' early_stop_param { metric: "
                                       "'loss' patience: 4 }");
  TestRun whole(text, options_);
  const FinishRecord end = whole.run();
  EXPECT_EQ(end.iteration, 8);
  for (const int at : {3, 4}) {
    TestRun first(text, options_);
    first.seen.after_iteration = [&](int64_t i) { first.control.stop = i == at; };
    SolverOptions options = options_;
    options.resume = first.run().last_snapshot;
    TestRun second(text, options);
    EXPECT_EQ(second.run().reason, end.reason);
    EXPECT_EQ(second.solver->iteration(), 8);
  }
}

// A stop right after a test: the test is in the snapshot, and is not done and counted twice.
TEST_F(ResumeTest, ATestIsCountedOnce) {
  const std::string text = solver_text(net({}), fields("SGD", 1, 10));
  TestRun first(text, options_);
  first.seen.after_test = [&](int64_t i) { first.control.stop = i == 4; };
  SolverOptions options = options_;
  options.resume = first.run().last_snapshot;
  EXPECT_CONTAINS(options.resume, "r_iter_4.");
  TestRun second(text, options);
  second.run();
  ASSERT_FALSE(second.seen.tests.empty());
  EXPECT_EQ(second.seen.tests[0].iteration, 8);
}

TEST_F(ResumeTest, TheRateFollowsTheEditedFile) {  // D2
  const auto text = [&](const std::string& steps, int max_iter) {
    return solver_text(net({}),
                       fmt::format("base_lr: 0.1 gamma: 0.1 lr_policy: 'multistep' {} "
                                   "max_iter: {} display: 1 random_seed: 1 snapshot_prefix: 'l'",
                                   steps, max_iter));
  };
  TestRun first(text("stepvalue: 5 stepvalue: 10", 7), options_);
  first.run();
  SolverOptions options = options_;
  options.resume = folder_ / "l_iter_7.solverstate";
  TestRun second(text("stepvalue: 8", 10), options);
  second.run();
  ASSERT_GE(second.seen.displays.size(), 2u);
  EXPECT_EQ(second.seen.displays[0].iteration, 7);
  EXPECT_NEAR(second.seen.displays[0].learning_rate, 0.1, 1e-12);
  EXPECT_NEAR(second.seen.displays[1].learning_rate, 0.01, 1e-12);
}

TEST_F(ResumeTest, TheSeedOfTheStateWins) {
  const std::string text = solver_text(net({}), fields("SGD", 1, 10));
  TestRun first(text, options_);
  first.seen.after_iteration = [&](int64_t i) { first.control.stop = i == 5; };
  SolverOptions options = options_;
  options.resume = first.run().last_snapshot;
  std::string edited = text;
  edited.replace(edited.find("random_seed: 11"), 15, "random_seed: 12");
  TestRun second(edited, options);
  EXPECT_EQ(second.solver->seed(), 11u);
  EXPECT_TRUE(second.seen.has_note("seed 11 of"));
  options.seed = 12;
  EXPECT_CONTAINS(message_of([&] { TestRun(text, options); }), "leave --seed away");
}

// A state as Caffe writes it: no fields of ours, and no such fields in the model either.
TEST_F(ResumeTest, AStateOfCaffeIsContinued) {
  const std::string text = solver_text(net({}), fields("SGD", 3, 10));
  TestRun whole(text, options_);
  whole.run();
  TestRun first(text, options_);
  first.seen.after_iteration = [&](int64_t i) { first.control.stop = i == 6; };
  SolverOptions options = options_;
  options.resume = first.run().last_snapshot;
  SolverState state;
  ASSERT_TRUE(state.ParseFromString(read_file(options.resume)));
  state.clear_kinet();
  state.clear_kinet_checksum();
  folder_.write("r_iter_6.solverstate", state.SerializeAsString());
  NetParameter model;
  ASSERT_TRUE(model.ParseFromString(read_file(folder_ / "r_iter_6.caffemodel")));
  model.clear_kinet();
  model.clear_kinet_checksum();
  folder_.write("r_iter_6.caffemodel", model.SerializeAsString());
  TestRun second(text, options);
  EXPECT_TRUE(second.seen.has_note("not written by kinet"));
  second.run();
  EXPECT_TRUE(state_of(*whole.solver) == state_of(*second.solver));
}

TEST_F(ResumeTest, NothingLeftToDo) {
  const std::string text = solver_text(net({}), fields("SGD", 1, 4));
  TestRun first(text, options_);
  SolverOptions options = options_;
  options.resume = first.run().last_snapshot;
  const auto written = fs::last_write_time(options.resume);
  TestRun second(text, options);
  EXPECT_TRUE(second.seen.has_note("nothing is left to do"));
  EXPECT_EQ(second.run().iteration, 4);
  EXPECT_EQ(fs::last_write_time(options.resume), written);
}

TEST_F(ResumeTest, ADataSetOfAnotherSizeIsNoted) {
  TestRun first(solver_text(net({}), fields("SGD", 1, 4)), options_);
  SolverOptions options = options_;
  options.resume = first.run().last_snapshot;
  write_images(folder_, "train", 8);
  TestRun second(solver_text(net({}), fields("SGD", 1, 8)), options);
  EXPECT_TRUE(second.seen.has_note("the set has 8 items now and had 10"));
  EXPECT_EQ(second.run().iteration, 8);
}

}  // namespace
}  // namespace kinet
