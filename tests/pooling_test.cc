// Pooling: against its definition, against the values of Caffe's own tests, and backward as the
// transpose of forward.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/math/im2col.h"
#include "tests/random_layer.h"

namespace kinet {
namespace {

std::vector<float> pooled(const std::string& fields, const Shape& shape,
                          const std::vector<float>& map, int top = 0) {
  OneLayer s = random_layer("type: 'Pooling' pooling_param { " + fields + " }", {shape}, top + 1);
  for (int64_t i = 0; i < s.bottom(0).count(); ++i) s.bottom(0).data()[i] = map[i % map.size()];
  s.forward();
  return data_of(s.top(top));
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
      OneLayer max = random_layer("type: 'Pooling' pooling_param { " + fields + " }", {shape}, 2);
      OneLayer ave =
          random_layer("type: 'Pooling' pooling_param { pool: AVE " + fields + " }", {shape});
      max.forward();
      ave.forward();
      const Shape& top = max.top(0).shape();
      for (int64_t o = 0; o < top.count(); ++o) {
        const int64_t plane = o / (top[2] * top[3]) * h.size * w.size;
        const NaiveWindow a(h, w, o / top[3] % top[2], o % top[3], max.bottom(0).data() + plane);
        const NaiveWindow b(h, w, o / top[3] % top[2], o % top[3], ave.bottom(0).data() + plane);
        ASSERT_EQ(max.top(0).data()[o], a.max) << o;
        ASSERT_EQ(max.top(1).data()[o], a.place) << o;
        ASSERT_NEAR(ave.top(0).data()[o], b.sum / static_cast<double>(b.divisor), 1e-6) << o;
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
  return random_layer("type: 'Pooling' pooling_param { " + fields + " }", {bottom}).top(0).shape();
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
        OneLayer s =
            random_layer("type: 'Pooling' pooling_param { pool: " + pool + " " + fields + " }",
                         {{2, 3, 9, 40}}, 1, threads);
        s.forward();
        s.backward();
        double out = 0, in = 0;
        for (int64_t i = 0; i < s.top(0).count(); ++i)
          out += double{s.top(0).diff()[i]} * s.top(0).data()[i];
        for (int64_t i = 0; i < s.bottom(0).count(); ++i) {
          in += double{s.bottom(0).diff()[i]} * s.bottom(0).data()[i];
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

}  // namespace
}  // namespace kinet
