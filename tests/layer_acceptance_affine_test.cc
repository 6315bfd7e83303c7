// InnerProduct, Scale and Bias: shapes, transposition, broadcasting, and what in-place layers
// around them must not change. Gradients are checked in gradient_check_test.cc and
// layer_golden_test.cc.
#include <gtest/gtest.h>

#include "src/base/check.h"
#include "tests/layer_test_util.h"

namespace kinet {
namespace {

using Floats = std::vector<float>;

OneLayer one(const std::string& type, const std::string& fields, const std::vector<Shape>& bottoms,
             const OneLayer::Options& options = {}) {
  const std::string message = type == "InnerProduct" ? "inner_product_param"
                              : type == "Scale"      ? "scale_param"
                                                     : "bias_param";
  return OneLayer("layer { name: 'l' type: '" + type + "' bottom: 'x' " +
                      (bottoms.size() > 1 ? "bottom: 'v' " : "") + "top: 'y' " + message + " { " +
                      fields + " } }",
                  bottoms, options);
}

TEST(InnerProduct, Shapes) {
  const Shape x{2, 3, 4, 5};
  EXPECT_EQ(one("InnerProduct", "num_output: 10", {x}).top(0).shape(), (Shape{2, 10}));
  OneLayer plain = one("InnerProduct", "num_output: 10 transpose: false", {x});
  EXPECT_EQ(plain.blob(0).shape(), (Shape{10, 60}));
  EXPECT_EQ(plain.blob(1).shape(), Shape{10});
  OneLayer transposed = one("InnerProduct", "num_output: 10 transpose: true", {x});
  EXPECT_EQ(transposed.blob(0).shape(), (Shape{60, 10}));
  EXPECT_EQ(one("InnerProduct", "num_output: 7 axis: 2", {x}).top(0).shape(), (Shape{2, 3, 7}));
  EXPECT_EQ(one("InnerProduct", "num_output: 7 axis: -1", {x}).top(0).shape(), (Shape{2, 3, 4, 7}));
  EXPECT_EQ(one("InnerProduct", "num_output: 7 bias_term: false", {x}).layer().blobs().size(), 1u);
}

// Positive weights and biases above 1 on positive data: every output is at least 1.
TEST(InnerProduct, ForwardWithFillers) {
  for (int64_t batch : {2, 1}) {
    OneLayer layer = one("InnerProduct",
                         "num_output: 10 weight_filler { type: 'uniform' } "
                         "bias_filler { type: 'uniform' min: 1 max: 2 }",
                         {{batch, 60}});
    for (float& v : std::span(layer.bottom(0).data(), batch * 60)) v = 0.5f;
    layer.forward();
    for (float v : layer.top_values(0)) EXPECT_GE(v, 1);
  }
}

Floats transpose(const Floats& from, int64_t rows, int64_t columns) {
  Floats out(from.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[c * rows + r] = from[r * columns + c];
  }
  return out;
}

TEST(InnerProduct, TransposedWeightsGiveTheSame) {
  const Shape x{4, 2, 3};
  OneLayer plain = one("InnerProduct", "num_output: 5", {x});
  OneLayer other = one("InnerProduct", "num_output: 5 transpose: true", {x});
  plain.randomize(plain.blob(0), 10);
  other.set_blob(0, transpose(data_of(plain.blob(0)), 5, 6));
  for (OneLayer* layer : {&plain, &other}) {
    layer->randomize(layer->bottom(0), 11);
    layer->randomize(layer->blob(1), 12);
    layer->forward();
    layer->randomize(layer->top(0), 13, true);
    layer->backward();
  }
  EXPECT_EQ(compare(other.top_values(0), plain.top_values(0), 1e-5), "");
  EXPECT_EQ(compare(other.bottom_diffs(0), plain.bottom_diffs(0), 1e-5), "");
  EXPECT_EQ(compare(other.blob_diffs(0), transpose(plain.blob_diffs(0), 5, 6), 1e-5), "");
  EXPECT_EQ(compare(other.blob_diffs(1), plain.blob_diffs(1), 1e-5), "");
}

// ---- Scale and Bias -----------------------------------------------------------------------------

struct Broadcasting {
  const char* fields;  // with a second bottom
  const char* learnt;  // with a parameter instead
  Shape vector;
  int axis;
};

const std::vector<Broadcasting> kBroadcasts = {
    {"axis: 0", "axis: 0 num_axes: -1", {2, 3, 4, 5}, 0},  // value by value
    {"axis: 0", "axis: 0 num_axes: 2", {2, 3}, 0},         // the beginning
    {"axis: 1", "axis: 1 num_axes: 2", {3, 4}, 1},         // the middle
    {"axis: -3", "axis: -3 num_axes: 2", {3, 4}, 1},
    {"axis: 2", "axis: 2 num_axes: -1", {4, 5}, 2},  // the end
    {"axis: 2", "axis: 2 num_axes: 1", {4}, 2},
    {"axis: 0", "num_axes: 0", {}, 0},  // one scalar
};

// Value i of x (2x3x4x5) belongs to this value of the vector.
int64_t vector_index(const Broadcasting& row, int64_t i) {
  const Shape x{2, 3, 4, 5};
  const int64_t inner = x.count(row.axis + row.vector.axes());
  return i / inner % row.vector.count();
}

Floats expected(const std::string& type, const Broadcasting& row, const Floats& x,
                const Floats& v) {
  Floats y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float other = v[vector_index(row, static_cast<int64_t>(i))];
    y[i] = type == "Scale" ? x[i] * other : x[i] + other;
  }
  return y;
}

TEST(ScaleAndBias, BroadcastASecondBottom) {
  for (const std::string type : {"Scale", "Bias"}) {
    for (const Broadcasting& row : kBroadcasts) {
      SCOPED_TRACE(type + " " + row.vector.str());
      OneLayer layer = one(type, row.fields, {{2, 3, 4, 5}, row.vector});
      layer.randomize(layer.bottom(0), 1);
      layer.randomize(layer.bottom(1), 2);
      EXPECT_TRUE(layer.layer().blobs().empty());
      layer.forward();
      EXPECT_EQ(compare(layer.top_values(0),
                        expected(type, row, layer.bottom_values(0), layer.bottom_values(1)), 1e-6),
                "");
    }
  }
}

TEST(ScaleAndBias, BroadcastAParameter) {
  for (const std::string type : {"Scale", "Bias"}) {
    for (const Broadcasting& row : kBroadcasts) {
      SCOPED_TRACE(type + " " + row.learnt);
      OneLayer layer = one(type, row.learnt, {{2, 3, 4, 5}});
      EXPECT_EQ(layer.blob(0).shape(), row.vector);
      layer.randomize(layer.bottom(0), 1);
      layer.forward();  // Scale starts at 1, Bias at 0: the identity
      EXPECT_EQ(layer.top_values(0), layer.bottom_values(0));
      layer.randomize(layer.blob(0), 2);
      layer.forward();
      EXPECT_EQ(compare(layer.top_values(0),
                        expected(type, row, layer.bottom_values(0), data_of(layer.blob(0))), 1e-6),
                "");
    }
  }
}

TEST(ScaleAndBias, ScaleWithABias) {
  OneLayer layer = one("Scale", "bias_term: true filler { value: 2 } bias_filler { value: 0.5 }",
                       {{2, 3, 4, 5}});
  ASSERT_EQ(layer.layer().blobs().size(), 2u);
  layer.randomize(layer.bottom(0), 1);
  layer.forward();
  for (int64_t i = 0; i < 120; ++i) {
    EXPECT_FLOAT_EQ(layer.top(0).data()[i], 2 * layer.bottom(0).data()[i] + 0.5f);
  }
}

TEST(ScaleAndBias, VectorThatDoesNotFit) {
  for (const std::string type : {"Scale", "Bias"}) {
    try {
      one(type, "axis: 1", {{2, 3, 4, 5}, {4, 5}});
      FAIL() << type;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("layer 'l'"), std::string::npos) << what;
      EXPECT_NE(what.find("4x5"), std::string::npos) << what;
      EXPECT_NE(what.find("2x3x4x5"), std::string::npos) << what;
    }
  }
}

}  // namespace
}  // namespace kinet
