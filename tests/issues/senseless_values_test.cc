// Values that a file can write and no run can use: inf and nan, numbers that would wrap, factors
// outside their range. Each is an error with its place before anything is computed.
#include <gtest/gtest.h>

#include <thread>

#include "src/base/text.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

class SenselessValues : public SolverTest {
 protected:
  std::string error_of(const std::string& fields) const {
    return message_of(
        [&] { TestRun(solver_text(net(), kNoSnapshot + "max_iter: 2 " + fields), options_); });
  }
  std::string net_error(const std::string& layer) const {
    return message_of([&] {
      TestRun(solver_text(net(layer), kNoSnapshot + "max_iter: 2 base_lr: 0.1"), options_);
    });
  }
};

TEST_F(SenselessValues, InfinityAndNanInSolvers) {
  for (const char* field : {"clip_gradients", "weight_decay", "power", "gamma", "delta", "momentum",
                            "warmup_start_lr", "max_epochs"}) {
    for (const char* value : {"nan", "inf", "-inf"}) {
      EXPECT_CONTAINS(error_of(fmt::format("base_lr: 0.1 {}: {}", field, value)),
                      fmt::format("field '{}' wants a finite number, not {}", field, value));
    }
  }
  EXPECT_CONTAINS(error_of("base_lr: nan"), "field 'base_lr' wants a finite number, not nan");
  EXPECT_CONTAINS(error_of("base_lr: 1 test_interval: 1 early_stop_param { min_delta: nan }"),
                  "early_stop_param: field 'min_delta' wants a finite number");
}

TEST_F(SenselessValues, InfinityAndNanInNets) {
  for (const char* layer :
       {"loss_weight: nan type: 'ReLU'", "param { lr_mult: nan } type: 'ReLU'",
        "param { decay_mult: inf } type: 'ReLU'",
        "type: 'InnerProduct' inner_product_param { num_output: 2 weight_filler { std: nan } }",
        "type: 'InnerProduct' inner_product_param { num_output: 2 weight_filler { mean: inf } }",
        "type: 'InnerProduct' inner_product_param { num_output: 2 bias_filler { value: nan } }",
        "type: 'Dropout' dropout_param { dropout_ratio: nan }"}) {
    EXPECT_CONTAINS(
        net_error(fmt::format("layer {{ name: 'x' bottom: 'ip1' top: 'x' {} }}", layer)),
        "wants a finite number");
  }
  for (const char* field : {"scale", "mean_value"}) {
    EXPECT_CONTAINS(net_error(fmt::format("layer {{ name: 'e' type: 'MnistData' top: 'e' "
                                          "transform_param {{ {}: nan }} }}",
                                          field)),
                    "wants a finite number, not nan");
  }
}

TEST_F(SenselessValues, BatchNormFraction) {
  for (const char* fraction : {"-0.1", "1.5"}) {
    EXPECT_CONTAINS(
        net_error(fmt::format("layer {{ name: 'bn' type: 'BatchNorm' bottom: 'ip1' top: "
                              "'ip1' batch_norm_param {{ moving_average_fraction: {} }} "
                              "}}\n",
                              fraction)),
        "moving_average_fraction must be from 0 to 1");
  }
}

TEST_F(SenselessValues, WholeNumbersThatWouldWrap) {
  EXPECT_CONTAINS(net_error("layer { name: 'x' bottom: 'ip1' top: 'x' type: 'Softmax' "
                            "softmax_param { axis: 4294967297 } }\n"),
                  "field 'axis' wants a whole number up to 2147483647, not 4294967297");
  options_.seed.reset();
  TestRun wide(solver_text(net(), kNoSnapshot + "base_lr: 1 max_iter: 1 random_seed: 4294967297"),
               options_);
  EXPECT_EQ(wide.solver->seed(), 4294967297u);
}

TEST_F(SenselessValues, RatesThatAreNoRates) {
  const auto policy = [&](const std::string& text) {
    return error_of("base_lr: 0.1 lr_policy: " + text);
  };
  EXPECT_CONTAINS(policy("'inv' gamma: -0.5 power: 0.75"), "gamma must not be negative");
  EXPECT_CONTAINS(policy("'exp' gamma: -0.5"), "gamma must not be negative");
  EXPECT_CONTAINS(policy("'step' gamma: -0.5 stepsize: 1"), "gamma must not be negative");
  EXPECT_CONTAINS(policy("'poly' power: -1"), "power must not be negative");
  EXPECT_CONTAINS(policy("'fixed' warmup_iter: 5 warmup_start_lr: -1"),
                  "warmup_start_lr must not be negative");
  // A rate may also grow without end: that is found when it is there. (The gradient is 0 by the
  // weight of the loss, so nothing else gives the run away.)
  std::string flat = net();
  flat.insert(flat.rfind("bottom: 'label' top: 'loss'"), "loss_weight: 1e-38 ");
  TestRun grows(solver_text(flat, kNoSnapshot + "max_iter: 50 base_lr: 1e-30 lr_policy: 'exp' "
                                                "gamma: 1e8"),
                options_);
  EXPECT_CONTAINS(message_of([&] { grows.run(); }), "the learning rate is");
}

TEST_F(SenselessValues, TestsAndWeights) {
  EXPECT_CONTAINS(error_of("base_lr: 1 test_interval: 1 test_iter: 0"),
                  "test_iter must be at least 1");
  EXPECT_CONTAINS(error_of("base_lr: 1 test_interval: 1 early_stop_param { min_delta: -1 }"),
                  "min_delta must not be negative");
  for (const char* names : {"", ",,,", "a.caffemodel,", " , a"}) {
    EXPECT_CONTAINS(error_of(fmt::format("base_lr: 1 weights: '{}'", names)), "empty file name");
  }
  options_.weights = {",,,"};
  EXPECT_CONTAINS(error_of("base_lr: 1"), "empty file name");
}

TEST_F(SenselessValues, MoreEpochsThanCanBeCounted) {
  TestRun endless(solver_text(net(), kNoSnapshot + "base_lr: 0 max_epochs: 1e38"), options_);
  endless.seen.after_iteration = [&](int64_t i) { endless.control.stop = i == 2; };
  EXPECT_EQ(endless.run().iteration, 2);
  EXPECT_EQ(endless.seen.starts[0].max_iterations, INT32_MAX);
  for (const double seconds : {1e19, 1e38, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(human_seconds(seconds), "over 100 years");
  }
  EXPECT_EQ(human_seconds(3600.0 * 1000), "1000h 00m");
}

// The iteration alone would take hours: it ends at the next batch, and is as if it had not begun.
TEST_F(SenselessValues, StopNowEndsALongIteration) {
  const std::string norm = "layer { name: 'bn' type: 'BatchNorm' bottom: 'ip1' top: 'ip1' }\n";
  TestRun r(solver_text(net(norm), kNoSnapshot + "base_lr: 0.1 max_iter: 2 iter_size: 100000000 "
                                                 "random_seed: 1"),
            options_);
  const std::vector<float> before = state_of(*r.solver);
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    r.control.stop = true;
    r.control.stop_now = true;
  });
  const FinishRecord end = r.run();
  user.join();
  EXPECT_EQ(end.iteration, 0);
  EXPECT_EQ(end.reason, "interrupted");
  EXPECT_TRUE(state_of(*r.solver) == before) << "weights or statistics changed";
  EXPECT_EQ(r.solver->train_net().batch_sources().front()->position(), 0);
}

}  // namespace
}  // namespace kinet
