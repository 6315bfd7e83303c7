// BatchNorm, LRN, Scale and Bias: the cases that go wrong in other programs (which statistics,
// when; windows at borders; broadcasting at every axis), beside the golden values.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "tests/random_layer.h"

namespace kinet {
namespace {

OneLayer batch_norm(const std::string& fields, const Shape& bottom) {
  return OneLayer("layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y' batch_norm_param { " +
                      fields + " } }",
                  {bottom});
}

TEST(BatchNorm, KnownBatchAndItsRunningSums) {
  OneLayer bn = batch_norm("", {4, 1});
  bn.set_bottom(0, {1, 2, 3, 6});  // mean 3, biased variance 3.5, unbiased 14 / 3
  bn.forward();
  const double inverse = 1 / std::sqrt(3.5 + 1e-5);
  expect_near(bn.top_values(0), {-2 * inverse, -inverse, 0, 3 * inverse}, "y");
  EXPECT_FLOAT_EQ(bn.blob(0).data()[0], 3);
  EXPECT_FLOAT_EQ(bn.blob(1).data()[0], 14.0f / 3);
  EXPECT_FLOAT_EQ(bn.blob(2).data()[0], 1);
  bn.forward();
  EXPECT_FLOAT_EQ(bn.blob(0).data()[0], 3 * 1.999f);
  EXPECT_FLOAT_EQ(bn.blob(1).data()[0], 14.0f / 3 * 1.999f);
  EXPECT_FLOAT_EQ(bn.blob(2).data()[0], 1.999f);
}

TEST(BatchNorm, StatisticsFollowThePhaseOfEachPassAndTestChangesNone) {
  OneLayer bn = batch_norm("", {4, 2, 3, 3});
  bn.randomize(bn.bottom(0), 1);
  bn.forward();
  const auto train = bn.top_values(0);
  const std::vector<std::vector<float>> sums = {data_of(bn.blob(0)), data_of(bn.blob(1)),
                                                data_of(bn.blob(2))};
  bn.context().phase = Phase::kTest;
  bn.forward();
  const auto test = bn.top_values(0);
  bn.forward();
  EXPECT_EQ(bn.top_values(0), test);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(data_of(bn.blob(i)), sums[i]) << "buffer " << i;
  EXPECT_NE(test, train);  // the stored variance is the unbiased one
  bn.context().phase = Phase::kTrain;
  bn.forward();
  EXPECT_EQ(bn.top_values(0), train);
}

TEST(BatchNorm, AFieldOverridesThePhase) {
  for (const bool stored : {false, true}) {
    OneLayer bn = batch_norm(stored ? "use_global_stats: true" : "use_global_stats: false", {4, 2});
    bn.context().phase = stored ? Phase::kTrain : Phase::kTest;
    bn.randomize(bn.bottom(0), 1);
    bn.forward();
    EXPECT_EQ(bn.blob(2).data()[0], stored ? 0 : 1);
  }
}

TEST(BatchNorm, OneValueAndConstantChannelsGiveZero) {
  OneLayer one = batch_norm("", {1, 3});
  one.set_bottom(0, {5, -2, 1e6f});
  one.forward();
  EXPECT_EQ(one.top_values(0), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(data_of(one.blob(1)), (std::vector<float>{0, 0, 0}));
  OneLayer constant = batch_norm("", {2, 1, 2, 2});
  constant.set_bottom(0, std::vector<float>(8, 0.1f));
  constant.forward();
  constant.set_top_diff(0, {1, 2, 3, 4, 5, 6, 7, 8});
  constant.backward();
  for (const float y : constant.top_values(0)) EXPECT_EQ(y, 0);
  for (const float dx : constant.bottom_diffs(0)) EXPECT_TRUE(std::isfinite(dx));
}

TEST(BatchNorm, MeanZeroAndVarianceOneFarFromTheOrigin) {
  OneLayer bn = batch_norm("", {5, 2, 30, 40});
  bn.randomize(bn.bottom(0), 3);
  for (int64_t i = 0; i < bn.bottom(0).count(); ++i) bn.bottom(0).data()[i] += 1000;
  bn.forward();
  const auto y = bn.top_values(0);
  for (int c = 0; c < 2; ++c) {
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < 5; ++n) {
      for (int64_t p = 0; p < 1200; ++p) {
        const double v = y[(n * 2 + c) * 1200 + p];
        sum += v, squares += v * v;
      }
    }
    EXPECT_NEAR(sum / 6000, 0, 1e-3);
    EXPECT_NEAR(squares / 6000, 1, 1e-3);
  }
}

double lrn_scale(const std::vector<float>& x, const Shape& s, int64_t at, int64_t size,
                 bool across) {
  const int64_t plane = s[2] * s[3], radius = size / 2;
  const int64_t n = at / plane / s[1], c = at / plane % s[1], i = at % plane / s[3], j = at % s[3];
  double sum = 0;
  for (int64_t a = -radius; a <= radius; ++a) {
    if (across) {
      if (c + a < 0 || c + a >= s[1]) continue;
      sum += std::pow(x[((n * s[1] + c + a) * s[2] + i) * s[3] + j], 2);
      continue;
    }
    for (int64_t b = -radius; b <= radius; ++b) {
      if (i + a < 0 || i + a >= s[2] || j + b < 0 || j + b >= s[3]) continue;
      sum += std::pow(x[((n * s[1] + c) * s[2] + i + a) * s[3] + j + b], 2);
    }
  }
  return sum / static_cast<double>(across ? size : size * size);
}

// Both regions, windows wider than the tensor, images of several strips, several threads.
TEST(Lrn, EqualsItsDefinition) {
  for (const Shape& shape : {Shape{2, 7, 3, 3}, Shape{1, 70, 17, 19}, Shape{2, 3, 2, 40}}) {
    for (const bool across : {true, false}) {
      for (const int size : {1, 3, 5, 15}) {
        for (const int threads : {1, 3}) {
          OneLayer l = random_layer(
              fmt::format("type: 'LRN' lrn_param {{ local_size: {} alpha: 0.7 beta: 0.75 "
                          "norm_region: {} }}",
                          size, across ? "ACROSS_CHANNELS" : "WITHIN_CHANNEL"),
              {shape}, 1, threads);
          l.forward();
          const auto x = data_of(l.bottom(0));
          std::vector<double> y(x.size());
          for (size_t i = 0; i < x.size(); ++i) {
            const double scale =
                1 + 0.7 * lrn_scale(x, shape, static_cast<int64_t>(i), size, across);
            y[i] = x[i] * std::pow(scale, -0.75);
          }
          expect_near(l.top_values(0), y, fmt::format("{} size {}", shape.str(), size));
        }
      }
    }
  }
}

TEST(Lrn, RefusesEvenSizes) {
  EXPECT_THROW(random_layer("type: 'LRN' lrn_param { local_size: 4 }", {{1, 2, 3, 3}}), Error);
}

// A vector at every axis, as a parameter and as a second bottom, with one thread and several.
TEST(ScaleAndBias, BroadcastAtEveryAxis) {
  const Shape x{3, 5, 4, 6};
  for (int axis = 0; axis < 4; ++axis) {
    for (int axes = 1; axis + axes <= 4; ++axes) {
      const int64_t inner = x.count(axis + axes), count = x.count(axis, axis + axes);
      const std::string where = fmt::format("axis: {} num_axes: {}", axis, axes);
      for (const int threads : {1, 4}) {
        OneLayer scale = random_layer("type: 'Scale' scale_param { bias_term: true " + where + " }",
                                      {x}, 1, threads);
        OneLayer bias = random_layer("type: 'Bias' bias_param { " + where + " }", {x}, 1, threads);
        std::vector<double> scaled(x.count()), shifted(x.count()), dx(x.count());
        auto ds = diff_of(scale.blob(0)), db = diff_of(scale.blob(1));
        std::vector<double> ds_exact(ds.begin(), ds.end()), db_exact(db.begin(), db.end());
        for (int64_t i = 0; i < x.count(); ++i) {
          const int64_t d = i / inner % count;
          const double s = scale.blob(0).data()[d], dy = scale.top(0).diff()[i];
          scaled[i] = s * scale.bottom(0).data()[i] + scale.blob(1).data()[d];
          shifted[i] = double{bias.bottom(0).data()[i]} + bias.blob(0).data()[d];
          dx[i] = dy * s;
          ds_exact[d] += dy * scale.bottom(0).data()[i];
          db_exact[d] += dy;
        }
        scale.forward();
        bias.forward();
        scale.backward();
        expect_near(scale.top_values(0), scaled, where);
        expect_near(bias.top_values(0), shifted, where);
        expect_near(scale.bottom_diffs(0), dx, where);
        expect_near(scale.blob_diffs(0), ds_exact, where);
        expect_near(scale.blob_diffs(1), db_exact, where);
      }
    }
  }
}

TEST(ScaleAndBias, ShapesThatDoNotFitAreNamed) {
  try {
    random_layer("type: 'Scale' scale_param { axis: 1 }", {{3, 5, 4, 6}, {4, 5}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("4x5"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("3x5x4x6"), std::string::npos) << error.what();
  }
  EXPECT_THROW(random_layer("type: 'Bias' bias_param { axis: 2 num_axes: 3 }", {{3, 5, 4, 6}}),
               Error);
}

}  // namespace
}  // namespace kinet
