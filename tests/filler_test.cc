// Fillers: values, bounds and moments; how a filler message is read and what it refuses.
#include "src/net/filler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/base/check.h"

namespace kinet {
namespace {

FillerSpec spec_of(const std::string& text) {
  Diagnostics diagnostics;
  const ParamNode root = parse_prototxt(text, "net.prototxt", diagnostics);
  diagnostics.throw_if_any();
  validate(root, filler_fields(), "test", diagnostics);
  diagnostics.throw_if_any();
  return read_filler(Params(&root, &filler_fields()));
}

std::vector<float> filled(const std::string& text, const Shape& shape, uint64_t seed = 1) {
  std::vector<float> out(shape.count());
  fill(spec_of(text), shape, Rng(seed, RngPurpose::kFiller), out);
  return out;
}

struct Moments {
  double mean, std;
};

Moments moments(const std::vector<float>& x) {
  double sum = 0, squares = 0;
  for (float v : x) sum += v;
  const double mean = sum / static_cast<double>(x.size());
  for (float v : x) squares += (v - mean) * (v - mean);
  return {mean, std::sqrt(squares / static_cast<double>(x.size()))};
}

const std::vector<Shape> kShapes = {{}, {64}, {16, 8}, {2, 3, 4}, {2, 3, 4, 5}, {2, 3, 4, 5, 2}};

TEST(Filler, Constant) {
  for (const Shape& shape : kShapes) {
    for (float v : filled("type: 'constant' value: 10", shape)) EXPECT_EQ(v, 10);
  }
  for (float v : filled("", {5})) EXPECT_EQ(v, 0);
}

TEST(Filler, UniformStaysWithinItsBounds) {
  for (const Shape& shape : kShapes) {
    for (float v : filled("type: 'uniform' min: 1 max: 2", shape)) {
      EXPECT_GE(v, 1);
      EXPECT_LE(v, 2);
    }
  }
  const Moments m = moments(filled("type: 'uniform' min: 1 max: 2", {10000}));
  EXPECT_NEAR(m.mean, 1.5, 0.012);
  EXPECT_NEAR(m.std, 1 / std::sqrt(12.0), 0.01);
}

TEST(Filler, GaussianHasItsMoments) {
  const Moments m = moments(filled("type: 'gaussian' mean: 10 std: 0.1", {100, 100}));
  EXPECT_NEAR(m.mean, 10, 0.004);
  EXPECT_NEAR(m.std, 0.1, 0.004);
}

// Caffe's rule: each value stays with probability sparse / d0.
TEST(Filler, SparseGaussianKeepsItsShare) {
  const std::vector<float> x = filled("type: 'gaussian' sparse: 5", {50, 400});
  const auto kept = static_cast<double>(x.size() - std::count(x.begin(), x.end(), 0.0f));
  EXPECT_NEAR(kept / 20000, 0.1, 3.8 * std::sqrt(0.1 * 0.9 / 20000));
  const std::vector<float> none = filled("type: 'gaussian' sparse: 0", {5, 5});
  EXPECT_EQ(none, std::vector<float>(25, 0.0f));
}

TEST(Filler, PositiveUnitballRowsSumToOne) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> x = filled("type: 'positive_unitball'", shape);
    const int64_t rows = shape.axes() > 0 ? shape[0] : 1, width = shape.count() / rows;
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) {
        EXPECT_GE(x[r * width + i], 0);
        EXPECT_LE(x[r * width + i], 1);
        sum += x[r * width + i];
      }
      EXPECT_NEAR(sum, 1, 1e-3);
    }
  }
}

// Blob 1000x2x4x5: fan_in 40, fan_out 20000, average 10020.
TEST(Filler, XavierAndMsraSpread) {
  const Shape shape{1000, 2, 4, 5};
  const struct {
    const char* norm;
    double n;
  } rows[] = {{"FAN_IN", 40}, {"FAN_OUT", 20000}, {"AVERAGE", 10020}};
  for (const auto& row : rows) {
    const std::string norm = std::string(" variance_norm: ") + row.norm;
    const auto xavier = filled("type: 'xavier'" + norm, shape);
    EXPECT_NEAR(moments(xavier).std, std::sqrt(1 / row.n), 0.01 * std::sqrt(1 / row.n));
    for (float v : xavier) EXPECT_LE(std::abs(v), std::sqrt(3 / row.n) * (1 + 1e-6));
    const auto msra = filled("type: 'msra'" + norm, shape);
    EXPECT_NEAR(moments(msra).std, std::sqrt(2 / row.n), 0.02 * std::sqrt(2 / row.n));
    EXPECT_NEAR(moments(msra).mean, 0, 0.02 * std::sqrt(2 / row.n));
  }
}

TEST(Filler, BilinearKernels) {
  for (int k : {7, 6}) {
    const std::vector<float> x = filled("type: 'bilinear'", {2, 1, k, k});
    const double f = std::ceil(k / 2.0), c = (k - 1) / (2 * f);
    for (int i = 0; i < k * k; ++i) {
      const int row = i / k, column = i % k;
      const double expected = (1 - std::abs(column / f - c)) * (1 - std::abs(row / f - c));
      EXPECT_NEAR(x[i], expected, 1e-6);
      EXPECT_EQ(x[i], x[k * k + i]);
      EXPECT_EQ(x[i], x[column * k + row]);  // symmetric
    }
  }
  EXPECT_EQ(filled("type: 'bilinear'", {1, 1, 7, 7})[3 * 7 + 3], 1);  // the centre of an odd kernel
  EXPECT_THROW(filled("type: 'bilinear'", {1, 1, 3, 4}), Error);
  EXPECT_THROW(filled("type: 'bilinear'", {3, 3}), Error);
}

TEST(Filler, SeedDecides) {
  EXPECT_EQ(filled("type: 'gaussian'", {50}, 3), filled("type: 'gaussian'", {50}, 3));
  EXPECT_NE(filled("type: 'gaussian'", {50}, 3), filled("type: 'gaussian'", {50}, 4));
}

TEST(Filler, AbsentMeansTheLayersDefault) {
  const FillerSpec spec = read_filler(Params(nullptr, &filler_fields()), 0.25f);
  EXPECT_EQ(spec.type, "constant");
  EXPECT_EQ(spec.value, 0.25f);
}

std::string error_of(const std::string& text) {
  try {
    spec_of(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Filler, BadMessagesAreRefusedWhereTheyStand) {
  EXPECT_EQ(error_of("value: 1\ntype: 'Xavier'"),
            "net.prototxt:2:7: unknown filler type 'Xavier' (did you mean 'xavier'?)");
  EXPECT_NE(error_of("type: 'uniform' min: 2 max: 1").find("min 2 is above max 1"),
            std::string::npos);
  EXPECT_NE(error_of("type: 'gaussian' std: -1").find("must not be negative"), std::string::npos);
  EXPECT_NE(error_of("type: 'xavier' variance_norm: FAN").find("FAN_IN"), std::string::npos);
}

TEST(Filler, EveryTypeFills) {
  for (const std::string& type : filler_types()) {
    for (float v : filled("type: '" + type + "'", {4, 4, 3, 3})) EXPECT_TRUE(std::isfinite(v));
  }
}

}  // namespace
}  // namespace kinet
