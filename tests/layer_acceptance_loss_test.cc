// Losses and metrics: values, identities, normalisation, labels that are ignored or out of range.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/base/check.h"
#include "tests/layer_test_util.h"

namespace kinet {
namespace {

using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

OneLayer two_bottoms(const std::string& type, const std::string& body, const Shape& a,
                     const Shape& b, const OneLayer::Options& options = {}) {
  return OneLayer(
      "layer { name: 'l' type: '" + type + "' bottom: 'a' bottom: 'b' top: 'y' " + body + " }",
      {a, b}, options);
}

float loss_of(OneLayer& layer) {
  layer.forward();
  return layer.top(0).data()[0];
}

void set_labels(OneLayer& layer, int classes, uint64_t stream) {
  Rng rng(1, RngPurpose::kTest, stream);
  Tensor& labels = layer.bottom(1);
  for (int64_t i = 0; i < labels.count(); ++i) {
    labels.data()[i] = static_cast<float>(rng.below(classes));
  }
}

TEST(Softmax, EveryPositionSumsToOne) {
  OneLayer layer("layer { type: 'Softmax' bottom: 'x' top: 'y' }", {{2, 10, 2, 3}});
  layer.randomize(layer.bottom(0), 1);
  layer.bottom(0).data()[0] = 1000;  // no overflow
  layer.forward();
  const Floats x = layer.bottom_values(0), y = layer.top_values(0);
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 6; ++i) {
      double sum = 0, total = 0;
      const auto at = [&](int c) { return (n * 10 + c) * 6 + i; };
      double max = x[at(0)];
      for (int c = 0; c < 10; ++c) max = std::max<double>(max, x[at(c)]);
      for (int c = 0; c < 10; ++c) total += std::exp(x[at(c)] - max);
      for (int c = 0; c < 10; ++c) {
        sum += y[at(c)];
        EXPECT_NEAR(y[at(c)], std::exp(x[at(c)] - max) / total, 1e-6);
      }
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

// Sum over the ignored label of the un-normalised loss = (classes - 1) times the full loss.
TEST(SoftmaxWithLoss, IgnoredLabelsAddUp) {
  const Shape scores{10, 5, 2, 3}, labels{10, 2, 3};
  const auto loss = [&](const std::string& body) {
    OneLayer layer = two_bottoms("SoftmaxWithLoss", body, scores, labels);
    layer.randomize(layer.bottom(0), 1);
    set_labels(layer, 5, 2);
    return loss_of(layer);
  };
  const double full = loss("loss_param { normalization: NONE }");
  double sum = 0;
  for (int label = 0; label < 5; ++label) {
    sum += loss("loss_param { normalization: NONE ignore_label: " + std::to_string(label) + " }");
  }
  EXPECT_NEAR(sum, 4 * full, 1e-4 * full);
}

// Two samples of two positions, one of the four labels counts.
TEST(SoftmaxWithLoss, Normalisations) {
  const struct {
    const char* fields;
    const char* summary;
    double divisor;
  } rows[] = {{"", "normalization VALID, ignore_label 255", 1},
              {"normalization: VALID", "normalization VALID, ignore_label 255", 1},
              {"normalization: FULL", "normalization FULL, ignore_label 255", 4},
              {"normalization: BATCH_SIZE", "normalization BATCH_SIZE, ignore_label 255", 2},
              {"normalization: NONE", "normalization NONE, ignore_label 255", 1},
              {"normalize: true", "normalization VALID, ignore_label 255", 1},
              {"normalize: false", "normalization BATCH_SIZE, ignore_label 255", 2}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.fields);
    OneLayer layer = two_bottoms("SoftmaxWithLoss",
                                 std::string("loss_param { ignore_label: 255 ") + row.fields + " }",
                                 {2, 3, 2}, {2, 2});
    layer.set_bottom(0, Floats(12, 0.5f));
    layer.set_bottom(1, {1, 255, 255, 255});
    EXPECT_NEAR(loss_of(layer), std::log(3.0) / row.divisor, 1e-6);
    EXPECT_EQ(layer.layer().summary(), row.summary);
    layer.set_top_diff(0, {2});
    layer.backward();
    const Floats dx = layer.bottom_diffs(0);
    const double share = 2 / row.divisor / 3;
    EXPECT_EQ(compare({dx[0], dx[2], dx[4]}, std::vector<double>{share, -2 * share, share}, 1e-5),
              "");
    for (int i : {1, 3, 5, 6, 7, 8, 9, 10, 11}) EXPECT_EQ(dx[i], 0) << i;
  }
}

TEST(SoftmaxWithLoss, AllLabelsIgnoredIsZero) {
  for (const char* norm : {"VALID", "FULL", "BATCH_SIZE", "NONE"}) {
    OneLayer layer =
        two_bottoms("SoftmaxWithLoss",
                    std::string("loss_param { ignore_label: -1 normalization: ") + norm + " }",
                    {2, 3, 2}, {2, 2});
    layer.randomize(layer.bottom(0), 1);
    layer.set_bottom(1, Floats(4, -1.0f));
    EXPECT_EQ(loss_of(layer), 0) << norm;
    layer.randomize(layer.bottom(0), 2, true);
    layer.set_top_diff(0, {1});
    layer.backward();
    EXPECT_EQ(layer.bottom_diffs(0), Floats(12, 0.0f)) << norm;
  }
}

// The loss is not capped at -log of the smallest float (87.3), and agrees with its gradient.
TEST(SoftmaxWithLoss, HopelessScoresGiveTheTrueLoss) {
  OneLayer layer = two_bottoms("SoftmaxWithLoss", "", {1, 2}, {1});
  layer.set_bottom(0, {1000, 0});
  layer.set_bottom(1, {1});
  EXPECT_FLOAT_EQ(loss_of(layer), 1000);
  layer.set_top_diff(0, {1});
  layer.backward();
  EXPECT_EQ(layer.bottom_diffs(0), (Floats{1, -1}));
}

TEST(SoftmaxWithLoss, SecondTopHoldsTheProbabilities) {
  OneLayer layer("layer { type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'b' top: 'y' top: 'p' }",
                 {{2, 2}, {2}});
  layer.set_bottom(0, {0, 0, 1, 1});
  layer.set_bottom(1, {0, 1});
  layer.forward();
  EXPECT_EQ(layer.top_values(1), Floats(4, 0.5f));
}

TEST(SoftmaxWithLoss, NotANumberStaysVisible) {
  OneLayer layer = two_bottoms("SoftmaxWithLoss", "", {2, 2}, {2});
  layer.set_bottom(0, {0, 0, kNan, 1});
  layer.set_bottom(1, {0, 1});
  EXPECT_TRUE(std::isnan(loss_of(layer)));
}

// A label out of range is named with its item and the allowed range, with any thread count.
TEST(Labels, OutOfRangeIsNamed) {
  for (const std::string type : {"SoftmaxWithLoss", "Accuracy"}) {
    for (int threads : {1, 3}) {
      for (float bad : {10.0f, -1.0f, 0.5f, kNan, 1e30f}) {
        OneLayer layer = two_bottoms(type, "", {3, 10}, {3}, {.threads = threads});
        layer.set_bottom(1, {0, 9, bad});
        try {
          layer.forward();
          FAIL() << type << " took label " << bad;
        } catch (const Error& error) {
          const std::string what = error.what();
          EXPECT_EQ(what.find("test.prototxt:1:1: layer 'l' (" + type + "): item 2 of the batch "),
                    0u)
              << what;
          EXPECT_NE(what.find(fmt::format("label {}, allowed are the whole numbers 0 to 9", bad)),
                    std::string::npos)
              << what;
          EXPECT_EQ(error.exit_status(), 1);
        }
      }
    }
  }
}

TEST(Labels, CountMustFitTheScores) {
  for (const char* type : {"SoftmaxWithLoss", "Accuracy"}) {
    EXPECT_THROW(two_bottoms(type, "", {3, 10}, {4}), Error);
    OneLayer layer = two_bottoms(type, "", {3, 10}, {3});
    EXPECT_EQ(layer.layer().label_classes(), 10);
    EXPECT_FALSE(layer.layer().can_propagate(1));
  }
}

TEST(EuclideanLoss, ValueAndGradients) {
  OneLayer layer = two_bottoms("EuclideanLoss", "", {2, 2}, {2, 2});
  layer.set_bottom(0, {1, 2, 3, 4});
  layer.set_bottom(1, {1, 0, 0, 2});
  EXPECT_FLOAT_EQ(loss_of(layer), (4 + 9 + 4) / 4.0f);
  layer.set_top_diff(0, {3.7f});
  layer.backward();
  EXPECT_EQ(compare(layer.bottom_diffs(0), Floats{0, 3.7f, 5.55f, 3.7f}, 1e-6), "");
  EXPECT_EQ(compare(layer.bottom_diffs(1), Floats{0, -3.7f, -5.55f, -3.7f}, 1e-6), "");
  EXPECT_THROW(two_bottoms("EuclideanLoss", "", {2, 2}, {2, 3}), Error);
  EXPECT_THROW(two_bottoms("EuclideanLoss", "", {2, 2}, {4, 1}), Error);
}

TEST(SigmoidCrossEntropyLoss, DividesByTheBatchSize) {
  OneLayer layer = two_bottoms("SigmoidCrossEntropyLoss", "", {10, 5}, {10, 5});
  for (uint64_t trial = 0; trial < 20; ++trial) {
    layer.randomize(layer.bottom(0), trial);
    Rng rng(1, RngPurpose::kTest, trial);
    double expected = 0;
    for (int64_t i = 0; i < 50; ++i) {
      const double t = layer.bottom(1).data()[i] = rng.uniform();
      const double p = 1 / (1 + std::exp(-static_cast<double>(layer.bottom(0).data()[i])));
      expected -= (t * std::log(p) + (1 - t) * std::log(1 - p)) / 10;
    }
    EXPECT_NEAR(loss_of(layer), expected, 1e-5);
  }
  EXPECT_EQ(layer.layer().summary(), "normalization BATCH_SIZE");
}

TEST(SigmoidCrossEntropyLoss, IgnoredHalfHasNoGradient) {
  OneLayer layer =
      two_bottoms("SigmoidCrossEntropyLoss", "loss_param { ignore_label: -1 }", {4, 5}, {4, 5});
  layer.randomize(layer.bottom(0), 1);
  for (int i = 0; i < 20; ++i) layer.bottom(1).data()[i] = i % 2 ? -1.0f : 1.0f;
  layer.forward();
  layer.set_top_diff(0, {1});
  layer.backward();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(layer.bottom_diffs(0)[i] == 0, i % 2 == 1) << i;
}

TEST(SigmoidCrossEntropyLoss, LargeScoresDoNotOverflow) {
  OneLayer layer = two_bottoms("SigmoidCrossEntropyLoss", "", {1, 4}, {1, 4});
  layer.set_bottom(0, {1000, -1000, 1000, -1000});
  layer.set_bottom(1, {1, 0, 0, 1});
  EXPECT_FLOAT_EQ(loss_of(layer), 2000);
}

// ---- Accuracy -----------------------------------------------------------------------------------

// Counted again the slow way: right if fewer than k scores are above the label's.
double recount(const Tensor& scores, const Tensor& labels, int k, float ignore) {
  const int64_t classes = scores.shape()[1], inner = scores.shape().count(2);
  double right = 0, all = 0;
  for (int64_t p = 0; p < labels.count(); ++p) {
    const float label = labels.data()[p];
    if (label == ignore) continue;
    const float* x = scores.data() + p / inner * classes * inner + p % inner;
    int above = 0;
    for (int64_t c = 0; c < classes; ++c) {
      above += x[c * inner] > x[static_cast<int64_t>(label) * inner];
    }
    right += above < k;
    all += 1;
  }
  return right / all;
}

TEST(Accuracy, CountedByHand) {
  const struct {
    const char* fields;
    Shape scores, labels;
    int k;
    int ignored;
  } rows[] = {{"", {100, 10}, {100}, 1, 0},
              {"", {2, 10, 4, 5}, {2, 4, 5}, 1, 0},
              {"ignore_label: -1", {100, 10}, {100}, 1, 3},
              {"top_k: 3", {100, 10}, {100}, 3, 0}};
  for (const auto& row : rows) {
    OneLayer layer = two_bottoms("Accuracy", std::string("accuracy_param { ") + row.fields + " }",
                                 row.scores, row.labels);
    layer.randomize(layer.bottom(0), 1);
    set_labels(layer, 10, 2);
    for (int i = 0; i < row.ignored; ++i) layer.bottom(1).data()[i * 30 + 2] = -1;
    const double expected = recount(layer.bottom(0), layer.bottom(1), row.k, -1);
    EXPECT_NEAR(loss_of(layer), expected, 1e-6) << row.fields;
    EXPECT_NEAR(loss_of(layer), expected, 1e-6) << "a second time";
    EXPECT_FALSE(layer.layer().can_propagate(0));
  }
}

TEST(Accuracy, EachClass) {
  OneLayer layer(
      "layer { type: 'Accuracy' bottom: 'a' bottom: 'b' top: 'y' top: 'c' "
      "accuracy_param { ignore_label: 1 } }",
      {{5, 4}, {5}});
  layer.set_bottom(0, {9, 1, 1, 1,    //
                       1, 9, 1, 1,    //
                       1, 9, 1, 1,    //
                       1, 1, 1, 9,    //
                       1, 1, 9, 1});  //
  layer.set_bottom(1, {0, 0, 1, 3, 3});
  layer.forward();
  EXPECT_EQ(layer.top_values(0), Floats{0.5});
  EXPECT_EQ(layer.top_values(1), (Floats{0.5, 0, 0, 0.5}));
}

TEST(Accuracy, TiesAndNaNCountAgainstTheLabel) {
  OneLayer layer = two_bottoms("Accuracy", "", {4, 2}, {4});
  layer.set_bottom(0, {1, 1,     //
                       kNan, 0,  //
                       0, kNan,  //
                       2, 1});
  layer.set_bottom(1, {0, 0, 0, 0});
  EXPECT_EQ(loss_of(layer), 0.25f);
}

TEST(Accuracy, NothingLeftIsZero) {
  OneLayer layer = two_bottoms("Accuracy", "accuracy_param { ignore_label: 0 }", {2, 2}, {2});
  layer.set_bottom(1, {0, 0});
  EXPECT_EQ(loss_of(layer), 0);
  EXPECT_THROW(two_bottoms("Accuracy", "accuracy_param { top_k: 3 }", {2, 2}, {2}), Error);
  EXPECT_THROW(two_bottoms("Accuracy", "accuracy_param { top_k: 0 }", {2, 2}, {2}), Error);
}

// ---- ArgMax -------------------------------------------------------------------------------------

OneLayer arg_max(const std::string& fields, const Shape& shape) {
  return OneLayer(
      "layer { name: 'l' type: 'ArgMax' bottom: 'x' top: 'y' argmax_param { " + fields + " } }",
      {shape});
}

TEST(ArgMax, Shapes) {
  const Shape x{10, 20, 3, 4};
  const auto shape = [&](const std::string& fields) { return arg_max(fields, x).top(0).shape(); };
  EXPECT_EQ(shape(""), (Shape{10, 1, 1, 1}));
  EXPECT_EQ(shape("out_max_val: true"), (Shape{10, 2, 1, 1}));
  EXPECT_EQ(shape("top_k: 5"), (Shape{10, 1, 5, 1}));
  EXPECT_EQ(shape("axis: 0"), (Shape{1, 20, 3, 4}));
  EXPECT_EQ(shape("axis: -2 out_max_val: true top_k: 2"), (Shape{10, 20, 2, 4}));
  EXPECT_EQ(arg_max("", {10, 20}).top(0).shape(), (Shape{10, 1, 1}));
  EXPECT_THROW(arg_max("axis: 2 top_k: 4", x), Error);
}

TEST(ArgMax, IndicesAndValues) {
  const Floats x{3, 9, 5, 1,  //
                 7, 2, 8, 8};
  const auto run = [&](const std::string& fields) {
    OneLayer layer = arg_max(fields, {2, 4});
    layer.set_bottom(0, x);
    layer.forward();
    return layer.top_values(0);
  };
  EXPECT_EQ(run(""), (Floats{1, 3}));
  EXPECT_EQ(run("top_k: 3"), (Floats{1, 2, 0, 3, 2, 0}));
  EXPECT_EQ(run("top_k: 2 out_max_val: true"), (Floats{1, 2, 9, 5, 3, 2, 8, 8}));
  EXPECT_EQ(run("axis: 0"), (Floats{1, 0, 1, 1}));
  EXPECT_EQ(run("axis: 1 top_k: 2 out_max_val: true"), (Floats{9, 5, 8, 8}));
}

}  // namespace
}  // namespace kinet
