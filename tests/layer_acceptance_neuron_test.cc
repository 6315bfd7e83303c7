// Neuron layers and dropout: values and identities that Caffe's users rely on.
// Gradients are checked in gradient_check_test.cc and layer_golden_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/check.h"
#include "tests/layer_test_util.h"

namespace kinet {
namespace {

using Floats = std::vector<float>;

OneLayer neuron(const std::string& type, const std::string& body, const Shape& shape,
                const OneLayer::Options& options = {}) {
  return OneLayer("layer { name: 'l' type: '" + type + "' bottom: 'x' top: 'y' " + body + " }",
                  {shape}, options);
}

// The layer's answer to `x`.
Floats answer(const std::string& type, const std::string& body, const Floats& x) {
  OneLayer layer = neuron(type, body, {1, static_cast<int64_t>(x.size())});
  layer.set_bottom(0, x);
  layer.forward();
  return layer.top_values(0);
}

// ---- neurons ------------------------------------------------------------------------------------

TEST(Neuron, ReluClosedForm) {
  EXPECT_EQ(answer("ReLU", "", {-2, -0.5, 0, 0.5, 3}), (Floats{0, 0, 0, 0.5, 3}));
  EXPECT_EQ(answer("ReLU", "relu_param { negative_slope: 0.5 }", {-2, 0, 3}), (Floats{-1, 0, 3}));
}

TEST(Neuron, EluClosedForm) {
  const Floats x{-3, -0.1f, 0, 0.1f, 3};
  const Floats y = answer("ELU", "elu_param { alpha: 0.5 }", x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], x[i] > 0 ? x[i] : 0.5 * (std::exp(x[i]) - 1), 1e-6);
  }
  EXPECT_EQ(compare(answer("ELU", "elu_param { alpha: 0 }", x), answer("ReLU", "", x), 0), "");
}

TEST(Neuron, SigmoidAndTanhAtTheirEnds) {
  Floats x{-1e30f, -10000, -100, 0, 100, 10000, 1e30f};
  const Floats s = answer("Sigmoid", "", x), t = answer("TanH", "", x);
  EXPECT_EQ(compare(s, Floats{0, 0, 0, 0.5, 1, 1, 1}, 1e-6), "");
  EXPECT_EQ(compare(t, Floats{-1, -1, -1, 0, 1, 1, 1}, 1e-6), "");
}

TEST(Neuron, NotANumberStaysVisible) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* type : {"ELU", "Sigmoid", "TanH", "ReLU", "PReLU"}) {
    EXPECT_TRUE(std::isnan(answer(type, "", {nan, 1})[0])) << type;
  }
}

TEST(Neuron, PreluStartsAtAQuarter) {
  EXPECT_EQ(answer("PReLU", "", {-4, 4}), (Floats{-1, 4}));
  OneLayer layer = neuron("PReLU", "", {2, 3, 2, 2});
  EXPECT_EQ(layer.blob(0).shape(), Shape{3});
  EXPECT_EQ(data_of(layer.blob(0)), Floats(3, 0.25f));
}

TEST(Neuron, PreluOfZeroIsRelu) {
  for (const char* shared : {"true", "false"}) {
    const std::string body = std::string("prelu_param { channel_shared: ") + shared +
                             " filler { type: 'constant' value: 0 } }";
    OneLayer prelu = neuron("PReLU", body, {2, 3, 4, 5}), relu = neuron("ReLU", "", {2, 3, 4, 5});
    for (OneLayer* layer : {&prelu, &relu}) {
      layer->randomize(layer->bottom(0), 1);
      layer->forward();
      layer->randomize(layer->top(0), 2, true);
      layer->backward();
    }
    EXPECT_EQ(compare(prelu.top_values(0), relu.top_values(0), 0), "");
    EXPECT_EQ(compare(prelu.bottom_diffs(0), relu.bottom_diffs(0), 0), "");
  }
}

// ---- dropout ------------------------------------------------------------------------------------

OneLayer dropout(const std::string& ratio, const Shape& shape,
                 const OneLayer::Options& options = {}) {
  return neuron("Dropout", "dropout_param { dropout_ratio: " + ratio + " }", shape, options);
}

TEST(Dropout, KeptValuesAreScaledExactly) {
  for (const std::string ratio : {"0.5", "0.75"}) {
    const float p = std::stof(ratio);
    OneLayer layer = dropout(ratio, {10, 1000});
    layer.randomize(layer.bottom(0), 1);
    layer.forward();
    layer.randomize(layer.top(0), 2, true);
    layer.backward();
    const Floats x = layer.bottom_values(0), y = layer.top_values(0), dy = diff_of(layer.top(0));
    int dropped = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const bool kept = y[i] != 0;
      dropped += !kept;
      EXPECT_EQ(y[i], kept ? x[i] * (1 / (1 - p)) : 0);
      EXPECT_EQ(layer.bottom_diffs(0)[i], kept ? dy[i] * (1 / (1 - p)) : 0);
    }
    EXPECT_NEAR(dropped / 10000.0, p, 1.96 * std::sqrt(p * (1 - p) / 10000));
  }
}

TEST(Dropout, TestPhaseIsTheIdentityBitForBit) {
  for (bool in_place : {false, true}) {
    OneLayer layer = dropout("0.5", {2, 3}, {.phase = Phase::kTest, .in_place = in_place});
    const Floats x{1, -0.0f, 3e-39f, 1e38f, -5, 0.1f};
    layer.set_bottom(0, x);
    layer.forward();
    EXPECT_EQ(0, std::memcmp(layer.top(0).data(), x.data(), sizeof(float) * x.size()));
    layer.set_top_diff(0, x);
    layer.backward();
    EXPECT_EQ(0, std::memcmp(layer.bottom(0).diff(), x.data(), sizeof(float) * x.size()));
  }
}

// A training layer that is run in a test pass and back again.
TEST(Dropout, FollowsThePhaseOfThePass) {
  OneLayer layer = dropout("0.5", {4, 50});
  layer.randomize(layer.bottom(0), 1);
  layer.forward();
  const Floats train = layer.top_values(0);
  layer.context().phase = Phase::kTest;
  layer.forward();
  EXPECT_EQ(layer.top_values(0), layer.bottom_values(0));
  layer.context().phase = Phase::kTrain;
  layer.forward();
  EXPECT_EQ(layer.top_values(0), train);
}

TEST(Dropout, MeanOverManyMasksIsTheInput) {
  OneLayer layer = dropout("0.5", {1, 8});
  layer.set_bottom(0, {1, 2, 3, 4, -1, -2, -3, -4});
  std::vector<double> sum(8);
  for (int pass = 0; pass < 10000; ++pass) {
    layer.context().pass = pass;
    layer.forward();
    for (int i = 0; i < 8; ++i) sum[i] += layer.top(0).data()[i];
  }
  for (int i = 0; i < 8; ++i) {
    const double x = layer.bottom(0).data()[i];
    EXPECT_NEAR(sum[i] / 10000, x, 0.02 * std::abs(x));
  }
}

TEST(Dropout, RatioZeroAndJustBelowOne) {
  OneLayer none = dropout("0", {4, 100}), most = dropout("0.999999", {4, 100});
  for (OneLayer* layer : {&none, &most}) {
    layer->randomize(layer->bottom(0), 1);
    layer->forward();
  }
  EXPECT_EQ(none.top_values(0), none.bottom_values(0));
  EXPECT_EQ(most.top_values(0), Floats(400, 0.0f));
  EXPECT_THROW(dropout("1", {2, 2}), Error);
  EXPECT_THROW(dropout("-0.1", {2, 2}), Error);
}

// The mask belongs to the sample's number in the run, whatever the batch, the thread count, and
// whether the layer runs in place.
TEST(Dropout, MaskBelongsToTheSample) {
  const auto masks = [](int64_t batch, int passes, const OneLayer::Options& options) {
    OneLayer layer = dropout("0.5", {batch, 700}, options);
    Floats all;
    for (int pass = 0; pass < passes; ++pass) {
      layer.context().pass = pass;
      layer.set_bottom(0, Floats(batch * 700, 1.0f));
      layer.forward();
      const Floats y = layer.top_values(0);
      all.insert(all.end(), y.begin(), y.end());
    }
    return all;
  };
  const Floats whole = masks(8, 1, {});
  EXPECT_EQ(masks(2, 4, {}), whole);
  EXPECT_EQ(masks(8, 1, {.threads = 3}), whole);
  EXPECT_EQ(masks(8, 1, {.in_place = true}), whole);
  EXPECT_NE(masks(8, 1, {.seed = 2}), whole);
  EXPECT_NE(Floats(whole.begin(), whole.begin() + 700),
            Floats(whole.begin() + 700, whole.begin() + 1400));
}

}  // namespace
}  // namespace kinet
