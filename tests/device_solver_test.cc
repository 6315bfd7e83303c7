// ctest: labels=unit,core timeout=300 device
// Training on a device: the same numbers as on the CPU, the resume law, and snapshots that either
// side goes on from.
#include <cmath>
#include <filesystem>

#include "tests/cuda/device_under_test.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

std::string conv(const std::string& name, const std::string& bottom, int outputs) {
  return fmt::format(
      "layer {{ name: '{0}' type: 'Convolution' bottom: '{1}' top: '{0}' param {{ lr_mult: 1 }} "
      "param {{ lr_mult: 2 }} convolution_param {{ num_output: {2} kernel_size: 5 weight_filler {{ "
      "type: 'xavier' }} }} }}\n"
      "layer {{ name: 'pool_{0}' type: 'Pooling' bottom: '{0}' top: 'pool_{0}' pooling_param {{ "
      "kernel_size: 2 stride: 2 }} }}\n",
      name, bottom, outputs);
}

std::string full(const std::string& name, const std::string& bottom, int outputs) {
  return fmt::format(
      "layer {{ name: '{0}' type: 'InnerProduct' bottom: '{1}' top: '{0}' param {{ lr_mult: 1 }} "
      "param {{ lr_mult: 2 }} inner_product_param {{ num_output: {2} weight_filler {{ type: "
      "'xavier' }} }} }}\n",
      name, bottom, outputs);
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / size);
}

class DeviceSolverTest : public SolverTest {
 protected:
  void SetUp() override {
    if (const std::string why = no_device(); !why.empty()) GTEST_SKIP() << why;
    SolverTest::SetUp();
    device_ = backend_under_test().open(0);
    use_thread_order(thread_orders().front());
  }
  void TearDown() override { EXPECT_EQ(device_reports(), ""); }

  SolverOptions on_device() {
    SolverOptions options = options_;
    options.device = device_;
    return options;
  }
  std::string small(const std::string& fields) const {
    return solver_text(net(kRelu + "layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'ip1' "
                                   "dropout_param { dropout_ratio: 0.3 } }\n"),
                       "base_lr: 0.05 lr_policy: 'fixed' random_seed: 3 " + fields);
  }

  std::shared_ptr<Device> device_;
};

// The shape of LeNet, the schedule of its solver. In check mode two iterations, which are slow
// enough.
TEST_F(DeviceSolverTest, TwentyIterationsOfLenetAreThoseOfTheCpu) {
  const size_t iterations = check_mode() ? 2 : 20;
  write_images(folder_, "big", 64, 28);
  const std::string text = solver_text(
      data_layer(folder_, "big", 8, "TRAIN") + conv("conv1", "data", 20) +
          conv("conv2", "pool_conv1", 50) + full("ip1", "pool_conv2", 500) + kRelu +
          full("ip2", "ip1", 10) +
          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' "
          "}\n",
      "base_lr: 0.01 lr_policy: 'inv' gamma: 0.0001 power: 0.75 momentum: 0.9 weight_decay: "
      "0.0005 random_seed: 1 max_iter: " +
          std::to_string(iterations) + kNoSnapshot);
  TestRun cpu(text, options_), gpu(text, on_device());
  cpu.run(), gpu.run();
  ASSERT_EQ(gpu.seen.losses.size(), iterations);
  for (size_t i = 0; i < iterations; ++i) {
    EXPECT_NEAR(gpu.seen.losses[i], cpu.seen.losses[i], 1e-4 * cpu.seen.losses[i]) << i;
  }
  if (!check_mode()) {
    EXPECT_LT(gpu.seen.losses.back(), 0.7 * gpu.seen.losses.front());
  }
  EXPECT_LT(relative_difference(state_of(*gpu.solver), state_of(*cpu.solver)), 1e-4);
}

TEST_F(DeviceSolverTest, EveryRuleWithClippingAndTestsIsThatOfTheCpu) {
  for (const std::string& type : OptimizerRegistry::instance().names()) {
    const bool momentum = OptimizerRegistry::instance().find(type)->uses_momentum;
    const std::string text =
        small("type: '" + type + "' " + (momentum ? "momentum: 0.9 " : "") +
              "weight_decay: 0.01 clip_gradients: 0.5 iter_size: 2 max_iter: 6 test_interval: 3" +
              kNoSnapshot);
    TestRun cpu(text, options_), gpu(text, on_device());
    cpu.run(), gpu.run();
    EXPECT_LT(relative_difference(state_of(*gpu.solver), state_of(*cpu.solver)), 1e-4) << type;
    ASSERT_EQ(gpu.seen.tests.size(), cpu.seen.tests.size());
    for (size_t t = 0; t < cpu.seen.tests.size(); ++t) {
      for (size_t o = 0; o < cpu.seen.tests[t].outputs.size(); ++o) {
        const double expected = cpu.seen.tests[t].outputs[o].value;
        EXPECT_NEAR(gpu.seen.tests[t].outputs[o].value, expected, 1e-3 * expected) << type;
      }
    }
  }
}

TEST_F(DeviceSolverTest, GoingOnIsAsIfItHadNeverStopped) {
  const std::string fields = "momentum: 0.9 snapshot_prefix: 'r' ";
  TestRun whole(small(fields + "max_iter: 8" + kNoSnapshot), on_device());
  whole.run();
  TestRun first(small(fields + "max_iter: 5"), on_device());
  first.run();
  ASSERT_EQ(first.seen.snapshots.size(), 1U);
  SolverOptions resumed = on_device();
  resumed.resume = first.seen.snapshots[0].second;
  TestRun rest(small(fields + "max_iter: 8" + kNoSnapshot), resumed);
  rest.run();
  EXPECT_EQ(state_of(*rest.solver), state_of(*whole.solver));

  resumed.device = nullptr;  // a state does not know where it was made
  TestRun on_cpu(small(fields + "max_iter: 8" + kNoSnapshot), resumed);
  on_cpu.run();
  EXPECT_LT(relative_difference(state_of(*on_cpu.solver), state_of(*whole.solver)), 1e-4);
}

TEST_F(DeviceSolverTest, WhatIsNotFiniteIsNotApplied) {
  TestRun run(small("max_iter: 9" + kNoSnapshot), on_device());
  run.solver->step();
  const std::vector<float> before = state_of(*run.solver);
  Net& net = run.solver->train_net();
  const float kept = net.parameter_arena()[0];
  net.parameter_arena()[0] = NAN;
  try {
    run.solver->step();
    FAIL() << "a NaN among the weights was not seen";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layer 'ip1' (InnerProduct): its parameters"),
              std::string::npos)
        << error.what();
  }
  net.parameter_arena()[0] = kept;
  EXPECT_EQ(state_of(*run.solver), before);
}

TEST_F(DeviceSolverTest, TheLearningRateSearchRunsThereToo) {
  const std::string text =
      small("momentum: 0.9 lr_search_param { method: 'armijo' } max_iter: 6" + kNoSnapshot);
  TestRun cpu(text, options_), gpu(text, on_device());
  cpu.run(), gpu.run();
  EXPECT_NEAR(gpu.solver->rate_multiplier(), cpu.solver->rate_multiplier(),
              1e-3 * cpu.solver->rate_multiplier());
  EXPECT_LT(relative_difference(state_of(*gpu.solver), state_of(*cpu.solver)), 1e-3);
}

}  // namespace
}  // namespace kinet
