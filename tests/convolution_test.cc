// Convolution and InnerProduct against plain loops, over every kind of geometry and number of
// threads, and the shapes of Caffe's own tests.
#include "src/math/convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "tests/random_layer.h"

namespace kinet {
namespace {

// Everything a convolution computes, by its definition.
struct NaiveConvolution {
  std::vector<double> y, dx, dw, db;

  NaiveConvolution(const ConvGeometry& g, OneLayer& s, int i, bool bias,
                   const std::vector<double>& w0, const std::vector<double>& b0)
      : y(s.top(i).count()), dx(s.bottom(i).count()), dw(w0), db(b0) {
    const ConvAxis &h = g.window.h, &w = g.window.w;
    for (int64_t n = 0; n < g.images; ++n) {
      for (int64_t o = 0; o < g.outputs; ++o) {
        for (int64_t a = 0; a < h.outputs(); ++a) {
          for (int64_t b = 0; b < w.outputs(); ++b) {
            const int64_t out = ((n * g.outputs + o) * h.outputs() + a) * w.outputs() + b;
            const double dy = s.top(i).diff()[out];
            if (bias) y[out] = s.blob(1).data()[o], db[o] += dy;
            for (int64_t c = 0; c < g.group_channels(); ++c) {
              for (int64_t r = 0; r < h.kernel; ++r) {
                for (int64_t q = 0; q < w.kernel; ++q) {
                  const int64_t row = a * h.stride - h.pad + r * h.dilation;
                  const int64_t column = b * w.stride - w.pad + q * w.dilation;
                  if (row < 0 || row >= h.size || column < 0 || column >= w.size) continue;
                  const int64_t channel = o / g.group_outputs() * g.group_channels() + c;
                  const int64_t in = ((n * g.channels + channel) * h.size + row) * w.size + column;
                  const int64_t at = ((o * g.group_channels() + c) * h.kernel + r) * w.kernel + q;
                  y[out] += double{s.blob(0).data()[at]} * s.bottom(i).data()[in];
                  dw[at] += dy * s.bottom(i).data()[in];
                  dx[in] += dy * s.blob(0).data()[at];
                }
              }
            }
          }
        }
      }
    }
  }
};

struct ConvCase {
  std::string name, fields;
  Shape bottom;
  ConvGeometry g;
};

ConvCase conv_case(std::string name, Shape bottom, int64_t outputs, int64_t groups, ConvAxis h,
                   ConvAxis w) {
  h.size = bottom[2], w.size = bottom[3];
  std::string fields = fmt::format(
      "num_output: {} group: {} kernel_h: {} kernel_w: {} stride_h: {} stride_w: {} pad_h: {} "
      "pad_w: {} dilation: {} dilation: {}",
      outputs, groups, h.kernel, w.kernel, h.stride, w.stride, h.pad, w.pad, h.dilation,
      w.dilation);
  const ConvGeometry g{{h, w}, bottom[0], bottom[1], outputs, groups};
  return {std::move(name), std::move(fields), std::move(bottom), g};
}

std::vector<ConvCase> conv_cases() {
  const auto axis = [](int64_t kernel, int64_t stride = 1, int64_t pad = 0, int64_t dilation = 1) {
    return ConvAxis{0, kernel, stride, pad, dilation};
  };
  return {
      conv_case("plain", {3, 2, 12, 11}, 5, 1, axis(3), axis(3)),
      conv_case("strided_padded", {3, 3, 9, 8}, 4, 1, axis(3, 2, 1), axis(3, 2, 1)),
      conv_case("rectangular", {2, 3, 9, 12}, 4, 1, axis(5, 3, 2), axis(2, 1, 0)),
      conv_case("dilated", {2, 3, 14, 13}, 4, 1, axis(3, 1, 2, 2), axis(3, 2, 3, 3)),
      conv_case("grouped", {3, 6, 10, 9}, 9, 3, axis(3, 1, 1), axis(3, 1, 1)),
      conv_case("depthwise", {3, 6, 10, 9}, 6, 6, axis(3, 1, 1), axis(3, 1, 1)),
      conv_case("depthwise_doubled", {2, 4, 11, 40}, 8, 4, axis(3, 2, 1), axis(5, 2, 2)),
      conv_case("one_by_one", {5, 7, 9, 9}, 6, 1, axis(1), axis(1)),
      conv_case("one_by_one_small", {5, 7, 3, 3}, 6, 1, axis(1), axis(1)),
      conv_case("one_by_one_strided", {5, 7, 9, 9}, 6, 1, axis(1, 2), axis(1, 2)),
      conv_case("many_small_images", {33, 8, 4, 4}, 6, 2, axis(3, 1, 1), axis(3, 1, 1)),
      conv_case("bands_of_a_large_image", {2, 32, 20, 70}, 2, 1, axis(5, 1, 2), axis(5, 1, 2)),
      conv_case("kernel_larger_than_image", {2, 2, 2, 2}, 3, 1, axis(5, 1, 2), axis(5, 1, 2)),
      conv_case("wholly_padded_rows", {2, 2, 3, 3}, 3, 1, axis(1, 2, 4), axis(1, 2, 4)),
  };
}

TEST(Convolution, EqualsItsDefinitionForEveryGeometryAndThreadCount) {
  for (const ConvCase& c : conv_cases()) {
    for (const bool bias : {true, false}) {
      for (const int threads : {1, 3, 7}) {
        SCOPED_TRACE(fmt::format("{}, bias {}, {} threads", c.name, bias, threads));
        OneLayer s =
            random_layer(fmt::format("type: 'Convolution' convolution_param {{ {} bias_term: {} }}",
                                     c.fields, bias),
                         {c.bottom, c.bottom}, 2, threads);
        std::vector<double> dw(s.blob(0).diff(), s.blob(0).diff() + s.blob(0).count()), db;
        if (bias) db.assign(s.blob(1).diff(), s.blob(1).diff() + s.blob(1).count());
        s.forward();
        s.backward();
        for (int i = 0; i < 2; ++i) {
          const NaiveConvolution naive(c.g, s, i, bias, dw, db);
          expect_near(data_of(s.top(i)), naive.y, "y");
          expect_near(diff_of(s.bottom(i)), naive.dx, "dx");
          dw = naive.dw, db = naive.db;  // both bottoms share the weights
        }
        expect_near(diff_of(s.blob(0)), dw, "dw");
        if (bias) expect_near(diff_of(s.blob(1)), db, "db");
      }
    }
  }
}

Shape conv_top(const std::string& fields, const Shape& bottom) {
  return random_layer("type: 'Convolution' convolution_param { " + fields + " }", {bottom})
      .top(0)
      .shape();
}

TEST(Convolution, Shapes) {
  EXPECT_EQ(conv_top("num_output: 4 kernel_size: 3 stride: 2", {2, 3, 6, 4}), Shape({2, 4, 2, 1}));
  EXPECT_EQ(conv_top("num_output: 3 kernel_size: 3 stride: 2 group: 3", {2, 3, 6, 4}),
            Shape({2, 3, 2, 1}));
  EXPECT_EQ(conv_top("num_output: 1 kernel_size: 3 kernel_size: 1 pad: 0 pad: 2", {1, 1, 5, 5}),
            Shape({1, 1, 3, 9}));
}

// Sobel's filter = a column of [1 2 1] after a row of [-1 0 1].
TEST(Convolution, SobelSeparates) {
  OneLayer whole = random_layer(
      "type: 'Convolution' convolution_param { num_output: 1 kernel_size: 3 stride: 2 "
      "bias_term: false }",
      {{2, 3, 6, 4}});
  OneLayer column = random_layer(
      "type: 'Convolution' convolution_param { num_output: 1 kernel_h: 3 kernel_w: 1 "
      "stride_h: 2 stride_w: 1 bias_term: false }",
      {{2, 3, 6, 4}});
  OneLayer row = random_layer(
      "type: 'Convolution' convolution_param { num_output: 1 kernel_h: 1 kernel_w: 3 "
      "stride_h: 1 stride_w: 2 bias_term: false }",
      {column.top(0).shape()});
  const float sobel[] = {-1, 0, 1, -2, 0, 2, -1, 0, 1}, smooth[] = {1, 2, 1}, edge[] = {-1, 0, 1};
  for (int c = 0; c < 3; ++c) {
    std::copy_n(sobel, 9, whole.blob(0).data() + 9 * c);
    std::copy_n(smooth, 3, column.blob(0).data() + 3 * c);
  }
  std::copy_n(edge, 3, row.blob(0).data());
  whole.forward();
  column.forward();
  std::ranges::copy(data_of(column.top(0)), row.bottom(0).data());
  row.forward();
  const auto y = data_of(row.top(0));
  expect_near(data_of(whole.top(0)), std::vector<double>(y.begin(), y.end()), "y");
}

TEST(Convolution, BackwardMakesOnlyWhatTheMaskAsksFor) {
  OneLayer s = random_layer(
      "type: 'Convolution' convolution_param { num_output: 2 kernel_size: 3 }", {{1, 2, 5, 5}});
  const std::vector<float> dx(s.bottom(0).diff(), s.bottom(0).diff() + s.bottom(0).count());
  Context context;
  Tensor *top = &s.top(0), *bottom = &s.bottom(0);
  s.layer().backward(context, {&top, 1}, {&bottom, 1}, {{false}, {true, true}});
  EXPECT_TRUE(std::ranges::equal(dx, diff_of(s.bottom(0))));
}

TEST(Convolution, RefusesWhatCannotBeWithAllFigures) {
  const auto message = [](const std::string& fields, const Shape& bottom) -> std::string {
    try {
      conv_top(fields, bottom);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto contains = [&](const std::string& fields, const Shape& bottom,
                            const std::string& part) {
    const std::string text = message(fields, bottom);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains("kernel_size: 3", {1, 2, 5, 5}, "num_output");
  contains("num_output: 2", {1, 2, 5, 5}, "kernel_size");
  contains("num_output: 2 kernel_size: 7", {1, 2, 5, 5}, "7x7 pixels does not fit");
  contains("num_output: 2 kernel_size: 7", {1, 2, 5, 5}, "1x2x5x5");
  contains("num_output: 2 kernel_size: 3 group: 3", {1, 2, 5, 5}, "group 3 must divide");
  contains("num_output: 2 kernel_size: 3 kernel_h: 3", {1, 2, 5, 5}, "either kernel_size");
  contains("num_output: 2 kernel_size: 3 stride: 0", {1, 2, 5, 5}, "stride must be 1 or more");
  contains("num_output: 2 kernel_size: 3 axis: 2", {1, 2, 5, 5}, "axis must be 1");
  contains("num_output: 2 kernel_size: 3", {1, 2, 5}, "1x2x5");
}

TEST(Im2col, ColumnsAreTheWindowsAndColToImageIsTheTranspose) {
  const Window2d window{{10, 3, 2, 1, 3}, {11, 3, 2, 0, 3}};
  const int64_t rows = 2 * window.taps(), columns = window.outputs();
  std::vector<float> col(rows * columns), back(2 * window.image());
  const auto image = distinct_values(2 * window.image(), 1);
  const auto other = distinct_values(rows * columns, 2);
  im2col(window, 2, image.data(), 0, window.h.outputs(), col.data(), columns);
  col2im(window, 2, other.data(), columns, 0, window.h.outputs(), back.data());
  EXPECT_EQ(col[columns], 0);  // row of tap (0, 1), output 0: in the padding above the image
  EXPECT_EQ(col[3 * columns], image[2 * 11]);  // tap (1, 0): row 0 * 2 - 1 + 3 = 2
  double forward = 0, backward = 0;
  for (size_t i = 0; i < col.size(); ++i) forward += double{col[i]} * other[i];
  for (size_t i = 0; i < image.size(); ++i) backward += double{image[i]} * back[i];
  EXPECT_NEAR(forward, backward, 1e-4);
}

// ---- InnerProduct -------------------------------------------------------------------------------

TEST(InnerProduct, EqualsItsDefinition) {
  for (const bool transpose : {false, true}) {
    for (const int threads : {1, 3}) {
      OneLayer s = random_layer(
          fmt::format("type: 'InnerProduct' inner_product_param {{ num_output: 40 transpose: "
                      "{} }}",
                      transpose),
          {{5, 3, 4, 5}}, 1, threads);
      EXPECT_EQ(s.top(0).shape(), Shape({5, 40}));
      EXPECT_EQ(s.blob(0).shape(), transpose ? Shape({60, 40}) : Shape({40, 60}));
      std::vector<double> dw(s.blob(0).diff(), s.blob(0).diff() + 2400);
      std::vector<double> db(s.blob(1).diff(), s.blob(1).diff() + 40);
      std::vector<double> y(200), dx(300);
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t o = 0; o < 40; ++o) {
          const double dy = s.top(0).diff()[i * 40 + o];
          y[i * 40 + o] = s.blob(1).data()[o];
          db[o] += dy;
          for (int64_t k = 0; k < 60; ++k) {
            const int64_t at = transpose ? k * 40 + o : o * 60 + k;
            const double x = s.bottom(0).data()[i * 60 + k], w = s.blob(0).data()[at];
            y[i * 40 + o] += w * x, dw[at] += dy * x, dx[i * 60 + k] += dy * w;
          }
        }
      }
      s.forward();
      s.backward();
      expect_near(data_of(s.top(0)), y, "y");
      expect_near(diff_of(s.bottom(0)), dx, "dx");
      expect_near(diff_of(s.blob(0)), dw, "dw");
      expect_near(diff_of(s.blob(1)), db, "db");
    }
  }
}

}  // namespace
}  // namespace kinet
