// Workers of an all-reduce run on a device: sums come back to it and weights are updated there. The
// numbers are those of workers on the CPU, with lazy streams too, which do all work as late as CUDA
// allows.
// ctest: labels=unit,core device timeout=240
#include "tests/bsp_workers.h"
#include "tests/cuda/device_under_test.h"

namespace kinet {
namespace {

constexpr int kWorkers = 3;

class DeviceWorkersTest : public BspWorkersTest {
 protected:
  void SetUp() override {
    BspWorkersTest::SetUp();
    if (const std::string why = no_device(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    use_lazy_streams(false);
    EXPECT_EQ(device_reports(), "");
  }
  std::vector<BspWorker> on_cpu(const std::string& text) {
    open_device_ = nullptr;
    sync_.bucket_bytes = 0;
    return train(text, kWorkers);
  }
  // Of buckets of `bucket_bytes`; 0: sums are made, and come back, at once.
  std::vector<BspWorker> on_device(const std::string& text, size_t bucket_bytes) {
    open_device_ = [] { return backend_under_test().open(0); };
    sync_.bucket_bytes = bucket_bytes;
    return train(text, kWorkers);
  }
  std::string text(const std::string& fields, const std::string& between = kRelu) const {
    return solver_text(net(between),
                       "base_lr: 0.05 lr_policy: 'fixed' random_seed: 3 " + fields + kNoSnapshot);
  }
  static void expect_all_well(const std::vector<BspWorker>& workers) {
    for (const BspWorker& w : workers) EXPECT_EQ(w.error, "");
  }
};

TEST_F(DeviceWorkersTest, EveryRuleIsThatOfTheCpu) {
  for (const std::string& type : OptimizerRegistry::instance().names()) {
    const bool momentum = OptimizerRegistry::instance().find(type)->uses_momentum;
    const std::string run = text("type: '" + type + "' " + (momentum ? "momentum: 0.9 " : "") +
                                 "weight_decay: 0.01 clip_gradients: 0.5 iter_size: 2 max_iter: 6");
    use_lazy_streams(false);
    const auto cpu = on_cpu(run);
    use_lazy_streams(true);
    const auto gpu = on_device(run, 128);
    expect_all_well(cpu), expect_all_well(gpu);
    const std::vector<float> weights = state_of(*gpu[0].run->solver);
    EXPECT_LT(distance(weights, state_of(*cpu[0].run->solver)), 1e-4) << type;
    EXPECT_GT(distance(weights, state_of(*TestRun(run, options_).solver)), 1e-3) << type;
    for (const BspWorker& w : gpu) EXPECT_EQ(state_of(*w.run->solver), weights) << type;
  }
}

TEST_F(DeviceWorkersTest, BucketsThatComeBackWhileBackwardRunsChangeNoBit) {
  const std::string run =
      text("momentum: 0.9 max_iter: 8 test_interval: 4",
           "layer { name: 'norm' type: 'BatchNorm' bottom: 'ip1' top: 'norm' }\n"
           "layer { name: 'relu1' type: 'ReLU' bottom: 'norm' top: 'ip1b' }\n"
           "layer { name: 'more' type: 'Eltwise' bottom: 'ip1b' bottom: 'ip1' top: 'ip1c' }\n"
           "layer { name: 'out' type: 'ReLU' bottom: 'ip1c' top: 'out' }\n");
  const auto whole = on_device(run, 0);
  const std::vector<float> weights = state_of(*whole[0].run->solver);
  expect_all_well(whole);
  use_lazy_streams(true);
  for (const size_t bytes : {size_t{64}, size_t{1000}, size_t{1} << 20}) {
    const auto gpu = on_device(run, bytes);
    expect_all_well(gpu);
    for (const BspWorker& w : gpu) EXPECT_EQ(state_of(*w.run->solver), weights) << bytes;
    ASSERT_EQ(gpu[0].run->seen.tests.size(), whole[0].run->seen.tests.size());
  }
  const auto cpu = on_cpu(run);
  EXPECT_LT(distance(weights, state_of(*cpu[0].run->solver)), 1e-4);
}

TEST_F(DeviceWorkersTest, ARateThatIsSearchedForIsThatOfTheCpu) {
  const std::string run = text("momentum: 0.9 lr_search_param { method: 'armijo' } max_iter: 6");
  const auto cpu = on_cpu(run), gpu = on_device(run, 0);
  expect_all_well(cpu), expect_all_well(gpu);
  EXPECT_LT(distance(state_of(*gpu[1].run->solver), state_of(*cpu[1].run->solver)), 1e-3);
}

// A state does not know where it was made: what one side writes the other goes on from.
TEST_F(DeviceWorkersTest, EitherSideGoesOnFromTheOther) {
  const std::string net_text = net();
  const auto fields = [&](int iterations, bool snapshot) {
    return solver_text(net_text, fmt::format("base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 "
                                             "random_seed: 3 snapshot_prefix: 'r' max_iter: {} {}",
                                             iterations, snapshot ? "" : kNoSnapshot));
  };
  const auto whole = on_device(fields(8, false), 256);
  const auto first = on_device(fields(5, true), 256);
  ASSERT_EQ(first[0].run->seen.snapshots.size(), 1U);
  options_.resume = first[0].run->seen.snapshots[0].second;
  const auto rest = on_device(fields(8, false), 256);
  const auto rest_on_cpu = on_cpu(fields(8, false));
  const std::vector<float> expected = state_of(*whole[0].run->solver);
  EXPECT_EQ(state_of(*rest[2].run->solver), expected);
  EXPECT_LT(distance(state_of(*rest_on_cpu[2].run->solver), expected), 1e-4);
}

#ifndef KINET_TEST_ON_GPU
TEST_F(DeviceWorkersTest, MemoryThatCannotBeLockedIsToldOnceAndChangesNoNumber) {
  const std::string run = text("momentum: 0.9 max_iter: 4");
  const auto locked = on_device(run, 128);
  refuse_locked_memory(true);
  use_lazy_streams(true);
  const auto pageable = on_device(run, 128);
  refuse_locked_memory(false);
  expect_all_well(pageable);
  EXPECT_EQ(state_of(*pageable[1].run->solver), state_of(*locked[1].run->solver));
  EXPECT_TRUE(locked[1].run->seen.warnings.empty());
  ASSERT_EQ(pageable[1].run->seen.warnings.size(), 1U);
  const std::string& warning = pageable[1].run->seen.warnings[0];
  EXPECT_NE(warning.find("cannot be page-locked (out of memory)"), std::string::npos) << warning;
  EXPECT_NE(warning.find("ulimit -l unlimited"), std::string::npos) << warning;
}
#endif

TEST_F(DeviceWorkersTest, WhatIsNotFiniteOnOneWorkerIsAppliedNowhere) {
  open_device_ = [] { return backend_under_test().open(0); };
  sync_.bucket_bytes = 128;
  std::vector<std::vector<float>> before(kWorkers);
  const auto workers = train(text("max_iter: 9"), kWorkers, [&](int rank, TestRun& run) {
    Net& net = run.solver->train_net();
    if (rank == 1) net.parameter_arena()[3] = NAN;
    before[rank] = state_of(*run.solver);
  });
  for (int r = 0; r < kWorkers; ++r) {
    EXPECT_NE(workers[r].error.find("not finite"), std::string::npos) << workers[r].error;
    if (r != 1) {
      EXPECT_EQ(state_of(*workers[r].run->solver), before[r]);
    }
  }
}

}  // namespace
}  // namespace kinet
