// Convolution, Pooling and InnerProduct: against plain loops over every kind of geometry and number
// of threads, and against the values of Caffe's own tests.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "layers/convolution.h"
#include "src/base/check.h"
#include "src/math/im2col.h"
#include "src/net/layer.h"

namespace kinet {
namespace {

void randomize(std::span<float> x, uint64_t key, float low = -1, float high = 1) {
  Rng rng(11, RngPurpose::kTest, key);
  for (float& v : x) v = rng.uniform(low, high);
}

std::span<float> data_of(Tensor& t) { return {t.data(), static_cast<size_t>(t.count())}; }
std::span<float> diff_of(Tensor& t) { return {t.diff(), static_cast<size_t>(t.count())}; }

// One layer outside any net, its tensors random.
class Single {
 public:
  Single(const std::string& text, const std::vector<Shape>& bottoms, int tops = 1, int threads = 1)
      : plan_(std::make_shared<Buffer>(), threads) {
    Diagnostics diagnostics;
    root_ = parse_prototxt(text, "test.prototxt", diagnostics);
    diagnostics.throw_if_any();
    const LayerType* type = LayerRegistry::instance().find(root_.find("type")->text);
    layer_ = type->make();
    layer_->configure("l", Phase::kTrain, &root_, type, 1, tops);
    layer_->set_up(bottoms);
    for (const ParameterDecl& p : layer_->declared()) {
      layer_->blobs().emplace_back(p.shape);
      randomize(data_of(layer_->blobs().back()), layer_->blobs().size());
      randomize(diff_of(layer_->blobs().back()), 20 + layer_->blobs().size());
    }
    for (const Shape& shape : layer_->reshape(bottoms, plan_)) {
      tops_.push_back(std::make_unique<Tensor>(shape));
      randomize(data_of(*tops_.back()), 40 + tops_.size());
      randomize(diff_of(*tops_.back()), 60 + tops_.size());
    }
    for (const Shape& shape : bottoms) {
      bottoms_.push_back(std::make_unique<Tensor>(shape));
      randomize(data_of(*bottoms_.back()), 80 + bottoms_.size());
      randomize(diff_of(*bottoms_.back()), 100 + bottoms_.size());
    }
    context_.threads = threads;
  }

  void forward() { layer_->forward(context_, pointers(bottoms_), pointers(tops_)); }
  void backward() {
    const BackwardMask mask{std::vector<bool>(bottoms_.size(), true),
                            std::vector<bool>(layer_->blobs().size(), true)};
    layer_->backward(context_, pointers(tops_), pointers(bottoms_), mask);
  }
  Layer& layer() { return *layer_; }
  Tensor& bottom(int i = 0) { return *bottoms_[i]; }
  Tensor& top(int i = 0) { return *tops_[i]; }
  Tensor& blob(int i) { return layer_->blobs()[i]; }
  void set(std::initializer_list<float> values) { std::ranges::copy(values, bottom().data()); }

 private:
  std::span<Tensor* const> pointers(const std::vector<std::unique_ptr<Tensor>>& tensors) {
    auto& list = &tensors == &tops_ ? top_list_ : bottom_list_;
    list.clear();
    for (const auto& t : tensors) list.push_back(t.get());
    return list;
  }

  ParamNode root_;
  WorkspacePlan plan_;
  std::unique_ptr<Layer> layer_;
  std::vector<std::unique_ptr<Tensor>> bottoms_, tops_;
  std::vector<Tensor*> bottom_list_, top_list_;
  Context context_;
};

void expect_near(std::span<const float> values, const std::vector<double>& expected,
                 const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  double squares = 0;
  for (const double e : expected) squares += e * e;
  const double rms = std::sqrt(squares / static_cast<double>(expected.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], 1e-5 * std::max(std::fabs(expected[i]), rms))
        << what << " at " << i;
  }
}

// Everything a convolution computes, by its definition.
struct NaiveConvolution {
  std::vector<double> y, dx, dw, db;

  NaiveConvolution(const ConvGeometry& g, Single& s, int i, bool bias,
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
        Single s(fmt::format("type: 'Convolution' convolution_param {{ {} bias_term: {} }}",
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
  return Single("type: 'Convolution' convolution_param { " + fields + " }", {bottom}).top().shape();
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
  Single whole(
      "type: 'Convolution' convolution_param { num_output: 1 kernel_size: 3 stride: 2 "
      "bias_term: false }",
      {{2, 3, 6, 4}});
  Single column(
      "type: 'Convolution' convolution_param { num_output: 1 kernel_h: 3 kernel_w: 1 "
      "stride_h: 2 stride_w: 1 bias_term: false }",
      {{2, 3, 6, 4}});
  Single row(
      "type: 'Convolution' convolution_param { num_output: 1 kernel_h: 1 kernel_w: 3 "
      "stride_h: 1 stride_w: 2 bias_term: false }",
      {column.top().shape()});
  const float sobel[] = {-1, 0, 1, -2, 0, 2, -1, 0, 1}, smooth[] = {1, 2, 1}, edge[] = {-1, 0, 1};
  for (int c = 0; c < 3; ++c) {
    std::copy_n(sobel, 9, whole.blob(0).data() + 9 * c);
    std::copy_n(smooth, 3, column.blob(0).data() + 3 * c);
  }
  std::copy_n(edge, 3, row.blob(0).data());
  whole.forward();
  column.forward();
  std::ranges::copy(data_of(column.top()), row.bottom().data());
  row.forward();
  const auto y = data_of(row.top());
  expect_near(data_of(whole.top()), std::vector<double>(y.begin(), y.end()), "y");
}

TEST(Convolution, BackwardMakesOnlyWhatTheMaskAsksFor) {
  Single s("type: 'Convolution' convolution_param { num_output: 2 kernel_size: 3 }",
           {{1, 2, 5, 5}});
  const std::vector<float> dx(s.bottom().diff(), s.bottom().diff() + s.bottom().count());
  Context context;
  Tensor *top = &s.top(), *bottom = &s.bottom();
  s.layer().backward(context, {&top, 1}, {&bottom, 1}, {{false}, {true, true}});
  EXPECT_TRUE(std::ranges::equal(dx, diff_of(s.bottom())));
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
  std::vector<float> image(2 * window.image()), col(rows * columns), other(rows * columns);
  std::vector<float> back(image.size());
  randomize(image, 1);
  randomize(other, 2);
  im2col(window, 2, image.data(), 0, window.h.outputs(), col.data(), columns);
  col2im(window, 2, other.data(), columns, 0, window.h.outputs(), back.data());
  EXPECT_EQ(col[columns], 0);  // row of tap (0, 1), output 0: in the padding above the image
  EXPECT_EQ(col[3 * columns], image[2 * 11]);  // tap (1, 0): row 0 * 2 - 1 + 3 = 2
  double forward = 0, backward = 0;
  for (size_t i = 0; i < col.size(); ++i) forward += double{col[i]} * other[i];
  for (size_t i = 0; i < image.size(); ++i) backward += double{image[i]} * back[i];
  EXPECT_NEAR(forward, backward, 1e-4);
}

// ---- Pooling ------------------------------------------------------------------------------------

std::vector<float> pooled(const std::string& fields, const Shape& shape,
                          const std::vector<float>& map, int top = 0) {
  Single s("type: 'Pooling' pooling_param { " + fields + " }", {shape}, top + 1);
  for (int64_t i = 0; i < s.bottom().count(); ++i) s.bottom().data()[i] = map[i % map.size()];
  s.forward();
  const auto y = data_of(s.top(top));
  return {y.begin(), y.end()};
}

const std::vector<float> kMagic = {35, 1, 6,  26, 19, 24, 3, 32, 7,  21, 23, 25,
                                   31, 9, 2,  22, 27, 20, 8, 28, 33, 17, 10, 15,
                                   30, 5, 34, 12, 14, 16, 4, 36, 29, 13, 18, 11};

TEST(Pooling, MaximaAndTheirPlaces) {
  const std::vector<float> map = {1, 2, 5, 2, 3, 9, 4, 1, 4, 8, 1, 2, 5, 2, 3};
  EXPECT_EQ(pooled("kernel_size: 2", {1, 1, 3, 5}, map),
            (std::vector<float>{9, 5, 5, 8, 9, 5, 5, 8}));
  EXPECT_EQ(pooled("kernel_size: 2", {1, 1, 3, 5}, map, 1),
            (std::vector<float>{5, 2, 2, 9, 5, 12, 12, 9}));
  const Shape six{1, 1, 6, 6};
  EXPECT_EQ(pooled("kernel_h: 3 kernel_w: 2", six, kMagic),
            (std::vector<float>{35, 32, 26, 27, 27, 32, 33, 33, 27, 27,
                                31, 34, 34, 27, 27, 36, 36, 34, 18, 18}));
  EXPECT_EQ(pooled("kernel_h: 3 kernel_w: 2", six, kMagic, 1),
            (std::vector<float>{0,  7,  3,  16, 16, 7,  20, 20, 16, 16,
                                12, 26, 26, 16, 16, 31, 31, 26, 34, 34}));
  EXPECT_EQ(pooled("kernel_h: 2 kernel_w: 3", six, kMagic),
            (std::vector<float>{35, 32, 26, 26, 32, 32, 27, 27, 33, 33,
                                33, 27, 34, 34, 34, 17, 36, 36, 34, 18}));
  EXPECT_EQ(pooled("kernel_h: 2 kernel_w: 3", six, kMagic, 1),
            (std::vector<float>{0,  7,  3,  3,  7,  7,  16, 16, 20, 20,
                                20, 16, 26, 26, 26, 21, 31, 31, 26, 34}));
}

// Value (MAX, AVE) and place (MAX) of one window, by definition.
struct NaiveWindow {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  int64_t place = -1, divisor = 0;

  NaiveWindow(const ConvAxis& h, const ConvAxis& w, int64_t i, int64_t j, const float* plane) {
    for (int64_t y = i * h.stride - h.pad; y < i * h.stride - h.pad + h.kernel; ++y) {
      for (int64_t x = j * w.stride - w.pad; x < j * w.stride - w.pad + w.kernel; ++x) {
        divisor += y < h.size + h.pad && x < w.size + w.pad;
        if (y < 0 || y >= h.size || x < 0 || x >= w.size) continue;
        const double v = plane[y * w.size + x];
        sum += v;
        if (v > max) max = v, place = y * w.size + x;
      }
    }
  }
};

// Images narrow and wide: maxima of short rows and of long ones are found in different ways.
TEST(Pooling, EqualsItsDefinition) {
  const ConvAxis axes[] = {{0, 2, 2, 0}, {0, 3, 2, 0}, {0, 3, 2, 1}, {0, 3, 1, 1}, {0, 4, 3, 2}};
  for (const Shape& shape : {Shape{2, 2, 7, 9}, Shape{1, 3, 10, 131}}) {
    for (ConvAxis h : axes) {
      ConvAxis w = h;
      h.size = shape[2], w.size = shape[3];
      const std::string fields =
          fmt::format("kernel_size: {} stride: {} pad: {}", h.kernel, h.stride, h.pad);
      SCOPED_TRACE(shape.str() + " " + fields);
      Single max("type: 'Pooling' pooling_param { " + fields + " }", {shape}, 2);
      Single ave("type: 'Pooling' pooling_param { pool: AVE " + fields + " }", {shape});
      max.forward();
      ave.forward();
      const Shape& top = max.top().shape();
      for (int64_t o = 0; o < top.count(); ++o) {
        const int64_t plane = o / (top[2] * top[3]) * h.size * w.size;
        const NaiveWindow a(h, w, o / top[3] % top[2], o % top[3], max.bottom().data() + plane);
        const NaiveWindow b(h, w, o / top[3] % top[2], o % top[3], ave.bottom().data() + plane);
        ASSERT_EQ(max.top(0).data()[o], a.max) << o;
        ASSERT_EQ(max.top(1).data()[o], a.place) << o;
        ASSERT_NEAR(ave.top().data()[o], b.sum / static_cast<double>(b.divisor), 1e-6) << o;
      }
    }
  }
}

TEST(Pooling, PaddingNeverWins) {
  EXPECT_EQ(pooled("kernel_size: 3 stride: 2 pad: 2", {1, 1, 3, 3}, {1, 2, 4, 2, 3, 2, 4, 2, 1}),
            (std::vector<float>{1, 4, 4, 4, 4, 4, 4, 4, 1}));
  for (const float y : pooled("kernel_size: 3 stride: 2 pad: 1", {1, 1, 4, 4}, {-3, -2, -5})) {
    EXPECT_LT(y, 0);
  }
}

TEST(Pooling, MeanCountsPaddingButNotTheOverhang) {
  EXPECT_EQ(pooled("pool: AVE kernel_size: 3 pad: 1", {1, 1, 3, 3}, {2}),
            (std::vector<float>{8.f / 9, 4.f / 3, 8.f / 9, 4.f / 3, 2, 4.f / 3, 8.f / 9, 4.f / 3,
                                8.f / 9}));
  const auto y = pooled("pool: AVE kernel_size: 3 stride: 2 pad: 1", {1, 1, 2, 2}, {1});
  const std::vector<double> expected = {4.0 / 9, 2.0 / 6, 2.0 / 6, 1.0 / 4};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[i], expected[i], 1e-6);
  EXPECT_EQ(pooled("pool: AVE kernel_size: 3 pad: 1 exclude_padding: true", {1, 1, 3, 3}, {2}),
            (std::vector<float>(9, 2.0f)));
}

Shape pool_top(const std::string& fields, const Shape& bottom) {
  return Single("type: 'Pooling' pooling_param { " + fields + " }", {bottom}).top().shape();
}

TEST(Pooling, ShapesRoundUpAndTheLastWindowBeginsInside) {
  EXPECT_EQ(pool_top("kernel_size: 3 stride: 2", {2, 3, 6, 5}), Shape({2, 3, 3, 2}));
  EXPECT_EQ(pool_top("kernel_size: 3 stride: 2 pad: 1 pool: AVE", {2, 3, 6, 5}),
            Shape({2, 3, 4, 3}));
  EXPECT_EQ(pool_top("global_pooling: true", {2, 3, 6, 5}), Shape({2, 3, 1, 1}));
  const auto size = [](const std::string& fields, int64_t in) {
    return pool_top(fields, {1, 1, in, in})[2];
  };
  EXPECT_EQ(size("kernel_size: 3 stride: 2", 112), 56);
  EXPECT_EQ(size("kernel_size: 3 stride: 2 round_mode: FLOOR", 112), 55);
  EXPECT_EQ(size("kernel_size: 3 stride: 2 pad: 1", 64), 33);
  EXPECT_EQ(size("kernel_size: 3 stride: 2 pad: 1 round_mode: FLOOR", 64), 32);
  EXPECT_EQ(size("kernel_size: 1 stride: 2", 6), 3);
}

// Backward is the transpose of forward, whose windows are linear (AVE) or chosen (MAX).
TEST(Pooling, BackwardGivesEachWindowsGradientToItsSources) {
  for (const std::string pool : {"MAX", "AVE"}) {
    for (const std::string fields : {"kernel_size: 2 stride: 2", "kernel_size: 3 stride: 2 pad: 1",
                                     "kernel_size: 3 pad: 2", "kernel_h: 3 kernel_w: 4 stride: 2",
                                     "kernel_size: 2 stride: 3", "global_pooling: true"}) {
      for (const int threads : {1, 3}) {
        Single s("type: 'Pooling' pooling_param { pool: " + pool + " " + fields + " }",
                 {{2, 3, 9, 40}}, 1, threads);
        s.forward();
        s.backward();
        double out = 0, in = 0;
        for (int64_t i = 0; i < s.top().count(); ++i)
          out += double{s.top().diff()[i]} * s.top().data()[i];
        for (int64_t i = 0; i < s.bottom().count(); ++i) {
          in += double{s.bottom().diff()[i]} * s.bottom().data()[i];
        }
        EXPECT_NEAR(out, in, 1e-4) << pool << " " << fields;
      }
    }
  }
}

TEST(Pooling, NanIsSeen) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto y = pooled("kernel_size: 2 stride: 2", {1, 1, 2, 4}, {1, 2, 3, 4, nan, 5, 6, 7});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 7);
}

TEST(Pooling, RefusesWhatCannotBe) {
  for (const std::string fields :
       {"stride: 2", "kernel_size: 2 pad: 2", "kernel_size: 2 pool: STOCHASTIC",
        "global_pooling: true kernel_size: 2", "kernel_size: 2 kernel_h: 2", "kernel_size: 9",
        "kernel_size: 2 stride: 0"}) {
    EXPECT_THROW(pool_top(fields, {1, 1, 4, 4}), Error) << fields;
  }
}

// ---- InnerProduct -------------------------------------------------------------------------------

TEST(InnerProduct, EqualsItsDefinition) {
  for (const bool transpose : {false, true}) {
    for (const int threads : {1, 3}) {
      Single s(fmt::format("type: 'InnerProduct' inner_product_param {{ num_output: 40 transpose: "
                           "{} }}",
                           transpose),
               {{5, 3, 4, 5}}, 1, threads);
      EXPECT_EQ(s.top().shape(), Shape({5, 40}));
      EXPECT_EQ(s.blob(0).shape(), transpose ? Shape({60, 40}) : Shape({40, 60}));
      std::vector<double> dw(s.blob(0).diff(), s.blob(0).diff() + 2400);
      std::vector<double> db(s.blob(1).diff(), s.blob(1).diff() + 40);
      std::vector<double> y(200), dx(300);
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t o = 0; o < 40; ++o) {
          const double dy = s.top().diff()[i * 40 + o];
          y[i * 40 + o] = s.blob(1).data()[o];
          db[o] += dy;
          for (int64_t k = 0; k < 60; ++k) {
            const int64_t at = transpose ? k * 40 + o : o * 60 + k;
            const double x = s.bottom().data()[i * 60 + k], w = s.blob(0).data()[at];
            y[i * 40 + o] += w * x, dw[at] += dy * x, dx[i * 60 + k] += dy * w;
          }
        }
      }
      s.forward();
      s.backward();
      expect_near(data_of(s.top()), y, "y");
      expect_near(diff_of(s.bottom()), dx, "dx");
      expect_near(diff_of(s.blob(0)), dw, "dw");
      expect_near(diff_of(s.blob(1)), db, "db");
    }
  }
}

}  // namespace
}  // namespace kinet
