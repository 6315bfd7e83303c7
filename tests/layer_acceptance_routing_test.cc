// Shape, routing and file-less data layers: values, shapes and identities that Caffe's users rely
// on. Gradients are checked in gradient_check_test.cc and layer_golden_test.cc.
#include <gtest/gtest.h>

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

std::string error_of(const std::string& text, const std::vector<Shape>& bottoms) {
  try {
    OneLayer layer(text, bottoms);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Floats counting(int64_t n) {
  Floats out(n);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(i);
  return out;
}

// ---- joining and cutting ------------------------------------------------------------------------

TEST(Concat, ShapesAndValues) {
  const std::string text = "layer { type: 'Concat' bottom: 'a' bottom: 'b' top: 'y' ";
  OneLayer axis0(text + "concat_param { axis: 0 } }", {{2, 3, 6, 5}, {5, 3, 6, 5}});
  EXPECT_EQ(axis0.top(0).shape(), (Shape{7, 3, 6, 5}));
  OneLayer axis1(text + "}", {{2, 3, 6, 5}, {2, 5, 6, 5}});
  EXPECT_EQ(axis1.top(0).shape(), (Shape{2, 8, 6, 5}));
  OneLayer small(text + "concat_param { axis: -1 } }", {{2, 2}, {2, 1}});
  small.set_bottom(0, {1, 2, 3, 4});
  small.set_bottom(1, {5, 6});
  small.forward();
  EXPECT_EQ(small.top_values(0), (Floats{1, 2, 5, 3, 4, 6}));
}

TEST(Concat, OneBottomAndOneGradient) {
  EXPECT_EQ(answer("Concat", "", {1, 2, 3}), (Floats{1, 2, 3}));
  OneLayer layer("layer { type: 'Concat' bottom: 'a' bottom: 'b' top: 'y' }", {{2, 1}, {2, 2}});
  layer.mask().bottom = {false, true};
  layer.randomize(layer.bottom(0), 3, true);
  const Floats untouched = layer.bottom_diffs(0);
  layer.forward();
  layer.set_top_diff(0, {1, 2, 3, 4, 5, 6});
  layer.backward();
  EXPECT_EQ(layer.bottom_diffs(0), untouched);
  EXPECT_EQ(layer.bottom_diffs(1), (Floats{2, 3, 5, 6}));
}

// The same axis by its old name, and what does not fit.
TEST(Concat, OldNameAndErrors) {
  const std::string text = "layer { name: 'c' type: 'Concat' bottom: 'a' bottom: 'b' top: 'y' ";
  OneLayer layer(text + "concat_param { concat_dim: 0 } }", {{2, 3}, {1, 3}});
  EXPECT_EQ(layer.top(0).shape(), (Shape{3, 3}));
  const std::string shapes = error_of(text + "}", {{2, 3, 4, 4}, {2, 3, 4, 5}});
  EXPECT_NE(shapes.find("test.prototxt:1:1: layer 'c' (Concat)"), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("2x3x4x5"), std::string::npos);
  EXPECT_NE(shapes.find("2x3x4x4"), std::string::npos);
  EXPECT_NE(error_of(text + "concat_param { axis: 1 concat_dim: 1 } }", {{2, 3}, {2, 3}}),
            "no error");
  EXPECT_NE(error_of(text + "concat_param { axis: 4 } }", {{2, 3}, {2, 3}}), "no error");
}

TEST(Slice, ShapesAndValues) {
  const std::string text = "layer { type: 'Slice' bottom: 'x' ";
  OneLayer equal(text + "top: 'a' top: 'b' top: 'c' slice_param { axis: 0 } }", {{6, 12, 2, 3}});
  for (int t : {0, 1, 2}) EXPECT_EQ(equal.top(t).shape(), (Shape{2, 12, 2, 3}));
  OneLayer points(text + "top: 'a' top: 'b' slice_param { slice_point: 3 } }", {{6, 12, 2, 3}});
  EXPECT_EQ(points.top(0).shape(), (Shape{6, 3, 2, 3}));
  EXPECT_EQ(points.top(1).shape(), (Shape{6, 9, 2, 3}));
  OneLayer small(text + "top: 'a' top: 'b' slice_param { axis: -1 slice_point: 1 } }", {{2, 3}});
  small.set_bottom(0, {1, 2, 3, 4, 5, 6});
  small.forward();
  EXPECT_EQ(small.top_values(0), (Floats{1, 4}));
  EXPECT_EQ(small.top_values(1), (Floats{2, 3, 5, 6}));
  EXPECT_EQ(answer("Slice", "", {1, 2, 3}), (Floats{1, 2, 3}));
}

TEST(Slice, Errors) {
  const std::string text = "layer { name: 's' type: 'Slice' bottom: 'x' top: 'a' top: 'b' ";
  EXPECT_NE(error_of(text + "}", {{2, 5}}).find("2 equal parts"), std::string::npos);
  EXPECT_NE(error_of(text + "slice_param { slice_point: 5 } }", {{2, 5}}), "no error");
  EXPECT_NE(error_of(text + "slice_param { slice_point: 0 } }", {{2, 5}}), "no error");
  EXPECT_NE(error_of(text + "slice_param { slice_point: 1 slice_point: 2 } }", {{2, 5}}),
            "no error");
}

TEST(Eltwise, Operations) {
  const std::string text = "layer { type: 'Eltwise' bottom: 'a' bottom: 'b' bottom: 'c' top: 'y' ";
  const struct {
    const char* fields;
    Floats expected;
  } rows[] = {{"", {7, 6}},
              {"coeff: 1 coeff: -0.5 coeff: 2", {8, 11}},
              {"operation: PROD", {8, 0}},
              {"operation: MAX", {4, 6}},
              {"operation: 2", {4, 6}}};
  for (const auto& row : rows) {
    OneLayer layer(text + "eltwise_param { " + row.fields + " } }", {{1, 2}, {1, 2}, {1, 2}});
    layer.set_bottom(0, {1, 0});
    layer.set_bottom(1, {2, 0});
    layer.set_bottom(2, {4, 6});
    if (std::string(row.fields).find("coeff") != std::string::npos) layer.set_bottom(1, {2, 2});
    layer.forward();
    EXPECT_EQ(layer.top_values(0), row.expected) << row.fields;
  }
}

TEST(Eltwise, StableProductGradientEqualsTheOther) {
  Floats gradient[2];
  for (int stable : {0, 1}) {
    OneLayer layer(
        "layer { type: 'Eltwise' bottom: 'a' bottom: 'b' bottom: 'c' top: 'y' "
        "eltwise_param { operation: PROD stable_prod_grad: " +
            std::to_string(stable) + " } }",
        {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}});
    for (int b : {0, 1, 2}) layer.set_bottom(b, distinct_values(120, b));
    layer.forward();
    layer.randomize(layer.top(0), 5, true);
    layer.backward();
    gradient[stable] = layer.bottom_diffs(1);
  }
  EXPECT_EQ(compare(gradient[0], gradient[1], 1e-5), "");
}

TEST(Eltwise, Errors) {
  const std::string text = "layer { name: 'e' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'y' ";
  EXPECT_NE(error_of(text + "}", {{2, 3}, {2, 4}}).find("2x4"), std::string::npos);
  EXPECT_NE(error_of(text + "eltwise_param { coeff: 1 } }", {{2, 3}, {2, 3}}), "no error");
  EXPECT_NE(
      error_of(text + "eltwise_param { operation: MAX coeff: 1 coeff: 1 } }", {{2, 3}, {2, 3}}),
      "no error");
}

TEST(Split, CopiesAndSumsGradients) {
  OneLayer layer("layer { type: 'Split' bottom: 'x' top: 'a' top: 'b' top: 'c' }", {{1, 3}});
  layer.set_bottom(0, {1, 2, 3});
  layer.forward();
  for (int t : {0, 1, 2}) {
    EXPECT_EQ(layer.top_values(t), (Floats{1, 2, 3}));
    layer.set_top_diff(t, Floats(3, static_cast<float>(t + 1)));
  }
  layer.backward();
  EXPECT_EQ(layer.bottom_diffs(0), Floats(3, 6.0f));
}

// ---- shapes -------------------------------------------------------------------------------------

Shape shape_after(const std::string& type, const std::string& body, const Shape& bottom) {
  OneLayer layer = neuron(type, body, bottom);
  layer.set_bottom(0, counting(bottom.count()));
  layer.forward();
  EXPECT_EQ(layer.top_values(0), counting(bottom.count()));
  return layer.top(0).shape();
}

TEST(Flatten, Shapes) {
  const Shape x{2, 3, 6, 5};
  const auto flat = [&](const std::string& f) {
    return shape_after("Flatten", "flatten_param { " + f + " }", x);
  };
  EXPECT_EQ(flat(""), (Shape{2, 90}));
  EXPECT_EQ(flat("axis: 2"), (Shape{2, 3, 30}));
  EXPECT_EQ(flat("end_axis: -2"), (Shape{2, 18, 5}));
  EXPECT_EQ(flat("axis: 0 end_axis: -2"), (Shape{36, 5}));
  EXPECT_THROW(flat("axis: 2 end_axis: 1"), Error);
}

TEST(Reshape, Shapes) {
  const Shape x{2, 3, 6, 5};
  const auto reshaped = [&](const std::string& f) {
    return shape_after("Reshape", "reshape_param { " + f + " }", x);
  };
  EXPECT_EQ(reshaped("shape { dim: 0 dim: -1 }"), (Shape{2, 90}));
  EXPECT_EQ(reshaped("shape { dim: 0 dim: 0 dim: 30 }"), (Shape{2, 3, 30}));
  EXPECT_EQ(reshaped("shape { dim: [-1, 5] }"), (Shape{36, 5}));
  EXPECT_EQ(reshaped("axis: 0 num_axes: 0 shape { dim: 1 }"), (Shape{1, 2, 3, 6, 5}));
  EXPECT_EQ(reshaped("axis: 2 num_axes: 0 shape { dim: 1 }"), (Shape{2, 3, 1, 6, 5}));
  EXPECT_EQ(reshaped("axis: -1 shape { dim: 1 }"), (Shape{2, 3, 6, 5, 1}));
  EXPECT_EQ(reshaped("axis: 1 num_axes: 2 shape { dim: -1 }"), (Shape{2, 18, 5}));
  EXPECT_EQ(reshaped("axis: 1 shape { dim: 15 dim: -1 dim: 2 }"), (Shape{2, 15, 3, 2}));
}

TEST(Reshape, FollowsANewBottomShape) {
  OneLayer layer = neuron("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }", {2, 3, 6, 5});
  layer.reshape({{4, 2, 2}});
  EXPECT_EQ(layer.top(0).shape(), (Shape{4, 4}));
}

TEST(Reshape, Errors) {
  const std::string text = "layer { name: 'r' type: 'Reshape' bottom: 'x' top: 'y' reshape_param ";
  for (const char* fields : {"{ shape { dim: 7 } }", "{ shape { dim: -1 dim: -1 } }",
                             "{ shape { dim: -2 } }", "{ shape { dim: 7 dim: -1 } }",
                             "{ axis: 5 shape { dim: 1 } }", "{ axis: 1 num_axes: 3 }"}) {
    const std::string error = error_of(text + fields + " }", {{2, 3}});
    EXPECT_NE(error.find("layer 'r' (Reshape)"), std::string::npos) << fields << ": " << error;
  }
}

// ---- data without files -------------------------------------------------------------------------

TEST(DummyData, ConstantOnceGaussianEveryTime) {
  OneLayer layer(
      "layer { type: 'DummyData' top: 'a' top: 'b' top: 'c' dummy_data_param { "
      "num: 5 num: 2 num: 3 channels: 3 height: 2 width: 4 "
      "data_filler { value: 7 } data_filler { type: 'gaussian' } data_filler { } } }",
      {});
  EXPECT_EQ(layer.top(1).shape(), (Shape{2, 3, 2, 4}));
  layer.forward();
  EXPECT_EQ(layer.top_values(0), Floats(120, 7.0f));
  EXPECT_EQ(layer.top_values(2), Floats(72, 0.0f));
  const Floats first = layer.top_values(1);
  layer.forward();
  EXPECT_EQ(layer.top_values(1), first);  // the same pass
  layer.context().pass = 1;
  layer.top(0).data()[0] = 1;  // shows whether it is filled again
  layer.forward();
  EXPECT_NE(layer.top_values(1), first);
  EXPECT_EQ(layer.top(0).data()[0], 1);
}

TEST(DummyData, Errors) {
  const std::string text =
      "layer { name: 'd' type: 'DummyData' top: 'a' top: 'b' top: 'c' "
      "dummy_data_param { ";
  EXPECT_NE(error_of(text + "} }", {}), "no error");
  EXPECT_NE(error_of(text + "num: 1 num: 2 channels: 1 height: 1 width: 1 } }", {}), "no error");
  EXPECT_NE(error_of(text + "num: 1 channels: 1 height: 1 width: 1 shape { dim: 1 } } }", {}),
            "no error");
  EXPECT_NE(error_of(text + "shape { dim: 1 } data_filler { } data_filler { } } }", {}),
            "no error");
}

TEST(Input, ShapesOfItsTops) {
  OneLayer same("layer { type: 'Input' top: 'a' top: 'b' input_param { shape { dim: [2, 3] } } }",
                {});
  EXPECT_EQ(same.top(1).shape(), (Shape{2, 3}));
  OneLayer each(
      "layer { type: 'Input' top: 'a' top: 'b' input_param { shape { dim: 2 } shape { } } }", {});
  EXPECT_EQ(each.top(0).shape(), Shape{2});
  EXPECT_EQ(each.top(1).shape(), Shape{});
  each.top(0).data()[1] = 5;
  each.forward();
  EXPECT_EQ(each.top(0).data()[1], 5);
  EXPECT_NE(error_of("layer { type: 'Input' top: 'a' }", {}), "no error");
  EXPECT_NE(error_of("layer { type: 'Input' top: 'a' input_param { shape { dim: 0 } } }", {}),
            "no error");
}

}  // namespace
}  // namespace kinet
