// Updates through real nets: golden runs, iter_size against a bigger batch, shared weights,
// clipping, and layers that must not touch training.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/solver_helpers.h"

namespace kinet {
namespace {

using Json = nlohmann::json;

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

// ---- shared weights (section 9)
// ------------------------------------------------------------------

const std::string kFiller = "num_output: 3 weight_filler { type: 'xavier' } } ";

// One full layer over the batch.
std::string whole_batch(const std::string& data) {
  return data +
         "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' param { name: 'w' } "
         "param { "
         "name: 'b' lr_mult: 2 } inner_product_param { " +
         kFiller +
         "}\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' "
         "}\n";
}

// The same function: the batch is cut in two halves, and two layers share both parameters.
std::string two_halves(const std::string& data) {
  const auto half = [](const std::string& n) {
    return "layer { name: 'ip" + n + "' type: 'InnerProduct' bottom: 'half" + n + "' top: 'out" +
           n + "' param { name: 'w' } param { name: 'b' lr_mult: 2 } inner_product_param { " +
           kFiller + "}\n";
  };
  return data +
         "layer { name: 'slice' type: 'Slice' bottom: 'data' top: 'half' top: 'half2' slice_param "
         "{ "
         "axis: 0 } }\n" +
         half("") + half("2") +
         "layer { name: 'join' type: 'Concat' bottom: 'out' bottom: 'out2' top: 'join' "
         "concat_param { "
         "axis: 0 } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'join' bottom: 'label' top: 'loss' "
         "}\n";
}

void expect_near(std::span<float> a, std::span<float> b) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 0;
  for (const float x : a) largest = std::max<double>(largest, std::abs(x));
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * largest) << i;
}

TEST_F(SolverTest, SharedWeightsLearnAsOne) {
  for (const std::string type :
       {"SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW"}) {
    SCOPED_TRACE(type);
    const std::string momentum = type == "AdaGrad" || type == "RMSProp" ? "" : " momentum: 0.5";
    const std::string rest =
        "base_lr: 0.01 weight_decay: 0.5 max_iter: 5 delta: 1e-3 random_seed: 2 "
        "type: '" +
        type + "'" + momentum + kNoSnapshot;
    const std::string data = data_layer(folder_, "train", 4, "TRAIN");
    TestRun one(solver_text(whole_batch(data), rest), options_);
    TestRun two(solver_text(two_halves(data), rest), options_);
    EXPECT_EQ(two.solver->train_net().parameters().size(), 2u);
    const auto a = one.solver->train_net().parameter_arena();
    const auto b = two.solver->train_net().parameter_arena();
    ASSERT_EQ(a.size(), b.size());
    std::copy(a.begin(), a.end(), b.begin());  // fillers are keyed by the layer's name
    for (int i = 0; i < 5; ++i) {
      one.solver->step();
      two.solver->step();
      expect_near(a, b);
    }
  }
}

TEST_F(SolverTest, SharedWeightsAccumulateOverMicroBatches) {  // AccumShare
  const std::string rest =
      "base_lr: 0.01 momentum: 0.9 weight_decay: 0.5 max_iter: 4 random_seed: 2" + kNoSnapshot;
  TestRun big(solver_text(two_halves(data_layer(folder_, "train", 4, "TRAIN")), rest), options_);
  TestRun small(
      solver_text(two_halves(data_layer(folder_, "train", 2, "TRAIN")), rest + " iter_size: 2"),
      options_);
  big.run();
  small.run();
  expect_near(big.solver->train_net().parameter_arena(),
              small.solver->train_net().parameter_arena());
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
