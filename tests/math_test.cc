// The math library against plain double-precision references: every instruction set's kernels,
// matrix products, and image-to-column copies.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "src/base/rng.h"
#include "src/math/blas.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_floats(int64_t n, float low, float high, uint64_t key = 1) {
  Rng rng(7, RngPurpose::kTest, key);
  std::vector<float> x(n);
  for (float& v : x) v = rng.uniform(low, high);
  return x;
}

// Distance in units of the last place of `exact`, which may be subnormal.
double ulps(float value, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (value == nearest || (std::isnan(value) && std::isnan(exact))) return 0;
  if (!std::isfinite(value) || !std::isfinite(nearest)) return 1e9;
  const float next = std::nextafter(std::fabs(nearest), kInf);
  return std::fabs(value - exact) / (static_cast<double>(next) - std::fabs(nearest));
}

class Vec : public testing::TestWithParam<int> {
 protected:
  const VecKernels& k = vec_variant(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Sets, Vec, testing::Range(0, vec_variant_count()),
                         [](const auto& info) { return vec_variant(info.param).name; });

// Lengths around every vector width, so that bodies and remainders are both seen.
const int64_t kLengths[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1000};

TEST_P(Vec, ElementWiseKernelsMatchScalarLoops) {
  using Kernel = std::function<void(int64_t, const float*, const float*, float*)>;
  using Scalar = std::function<double(double a, double b, double y)>;
  const std::vector<std::pair<Kernel, Scalar>> cases = {
      {[&](auto n, auto a, auto, auto y) { k.axpy(n, 1.5f, a, y); },
       [](double a, double, double y) { return y + 1.5 * a; }},
      {[&](auto n, auto a, auto, auto y) { k.axpby(n, 1.5f, a, -0.5f, y); },
       [](double a, double, double y) { return 1.5 * a - 0.5 * y; }},
      {[&](auto n, auto a, auto, auto y) { k.scale(n, -3.0f, a, y); },
       [](double a, double, double) { return -3 * a; }},
      {[&](auto n, auto a, auto, auto y) { k.add_scalar(n, 0.25f, a, y); },
       [](double a, double, double) { return a + 0.25; }},
      {[&](auto n, auto a, auto, auto y) { k.scale_shift(n, 2.0f, 0.25f, a, y); },
       [](double a, double, double) { return 2 * a + 0.25; }},
      {[&](auto n, auto a, auto, auto y) { k.shift_scale(n, 0.25f, 2.0f, a, y); },
       [](double a, double, double) { return (a + 0.25) * 2; }},
      {[&](auto n, auto a, auto b, auto y) { k.add(n, a, b, y); },
       [](double a, double b, double) { return a + b; }},
      {[&](auto n, auto a, auto b, auto y) { k.sub(n, a, b, y); },
       [](double a, double b, double) { return a - b; }},
      {[&](auto n, auto a, auto b, auto y) { k.mul(n, a, b, y); },
       [](double a, double b, double) { return a * b; }},
      {[&](auto n, auto a, auto b, auto y) { k.div(n, a, b, y); },
       [](double a, double b, double) { return a / b; }},
      {[&](auto n, auto a, auto b, auto y) { k.mul_add(n, a, b, y); },
       [](double a, double b, double y) { return y + a * b; }},
      {[&](auto n, auto a, auto b, auto y) { k.max(n, a, b, y); },
       [](double a, double b, double) { return std::max(a, b); }},
      {[&](auto n, auto a, auto, auto y) { k.relu(n, 0.125f, a, y); },
       [](double a, double, double) { return a > 0 ? a : 0.125 * a; }},
      {[&](auto n, auto a, auto b, auto y) { k.relu_grad(n, 0.125f, a, b, y); },
       [](double a, double b, double) { return a > 0 ? b : 0.125 * b; }},
  };
  for (size_t c = 0; c < cases.size(); ++c) {
    for (const int64_t n : kLengths) {
      const auto a = random_floats(n, -2, 2, 1), b = random_floats(n, -2, 2, 2);
      const auto before = random_floats(n, -2, 2, 3);
      auto y = before;
      cases[c].first(n, a.data(), b.data(), y.data());
      for (int64_t i = 0; i < n; ++i) {
        const double exact = cases[c].second(a[i], b[i], before[i]);
        ASSERT_NEAR(y[i], exact, 1e-6 * std::max(1.0, std::fabs(exact))) << "case " << c;
      }
      auto in_place = a;
      cases[c].first(n, in_place.data(), b.data(), in_place.data());
      for (int64_t i = 0; i < n; ++i) {
        const double exact = cases[c].second(a[i], b[i], a[i]);
        ASSERT_NEAR(in_place[i], exact, 1e-6 * std::max(1.0, std::fabs(exact)))
            << "in place, case " << c;
      }
    }
  }
}

// A sweep of `low`..`high` and the special values, against double precision.
void expect_accurate(void (*kernel)(int64_t, const float*, float*), double (*exact)(double),
                     float low, float high) {
  auto x = random_floats(200000, low, high);
  for (const float s : {0.0f, -0.0f, kInf, -kInf, kNan, 1e-30f, -1e-30f, 1e-42f, 88.7f, 88.73f,
                        -87.4f, -103.9f, -104.5f, 1e30f, -1e30f, 1.0f, 0.99999994f, 3.4e38f}) {
    x.push_back(s);
  }
  std::vector<float> y(x.size());
  kernel(static_cast<int64_t>(x.size()), x.data(), y.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = ulps(y[i], exact(x[i]));
    ASSERT_LE(error, 4) << "x = " << x[i] << ", y = " << y[i] << ", exact " << exact(x[i]);
    worst = std::max(worst, error);
  }
  testing::Test::RecordProperty("worst_ulps", std::to_string(worst));
}

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_P(Vec, TranscendentalFunctionsAreWithinFourUlps) {
  expect_accurate(k.exp, std::exp, -10, 10);
  expect_accurate(k.exp, std::exp, -105, 90);
  expect_accurate(k.log, std::log, 0, 4);
  expect_accurate(k.log, std::log, 0.9f, 1.1f);
  expect_accurate(k.log, std::log, 0, 1e6f);
  expect_accurate(k.sigmoid, exact_sigmoid, -20, 20);
  expect_accurate(k.tanh, std::tanh, -0.1f, 0.1f);
  expect_accurate(k.tanh, std::tanh, -12, 12);
}

TEST_P(Vec, PowIsStandardPow) {
  auto x = random_floats(5000, 0, 100);
  for (const float s : {1e-30f, 1e30f, 1.0f, 1e-42f}) x.push_back(s);
  std::vector<float> y(x.size());
  for (const float e : {-0.75f, 0.75f, 0.5f, 2.0f, -3.0f, 0.0f, 1.0f, 10.0f, -40.0f, 60.0f}) {
    k.pow(static_cast<int64_t>(x.size()), x.data(), e, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(ulps(y[i], std::pow(static_cast<double>(x[i]), e)), e == -0.75f ? 4 : 1.01)
          << x[i] << "^" << e;
    }
  }
  const std::vector<float> odd = {0.0f, -0.0f, -2.0f, kInf, -kInf, kNan, 4.0f};
  for (const float e : {0.5f, -1.0f, 3.0f, 0.0f, kNan, kInf}) {
    k.pow(7, odd.data(), e, y.data());
    for (size_t i = 0; i < odd.size(); ++i) {
      ASSERT_EQ(ulps(y[i], std::pow(odd[i], e)), 0) << odd[i] << "^" << e;
    }
  }
}

TEST_P(Vec, ReductionsAreExactEnoughAndTheSameInEverySet) {
  for (const int64_t n : kLengths) {
    const auto x = random_floats(n, -2, 2, 1), y = random_floats(n, -2, 2, 2);
    double sum = 0, squares = 0, dot = 0;
    float largest = -kInf;
    for (int64_t i = 0; i < n; ++i) {
      sum += x[i], squares += double{x[i]} * x[i], dot += double{x[i]} * y[i];
      largest = std::max(largest, x[i]);
    }
    EXPECT_NEAR(k.sum(n, x.data()), sum, 1e-10);
    EXPECT_NEAR(k.sum_squares(n, x.data()), squares, 1e-10);
    EXPECT_NEAR(k.dot(n, x.data(), y.data()), dot, 1e-10);
    EXPECT_EQ(k.sum(n, x.data()), vec_variant(0).sum(n, x.data()));
    EXPECT_EQ(k.dot(n, x.data(), y.data()), vec_variant(0).dot(n, x.data(), y.data()));
    if (n > 0) {
      EXPECT_EQ(k.max_value(n, x.data()), largest);
    }
  }
}

TEST_P(Vec, AllFiniteFindsOneBadValueAnywhere) {
  for (const int64_t n : {1, 17, 5000, 12345}) {
    auto x = random_floats(n, -1.5e38f, 1.5e38f);
    EXPECT_TRUE(k.all_finite(n, x.data()));
    for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
      for (const float bad : {kInf, -kInf, kNan}) {
        const float kept = std::exchange(x[at], bad);
        EXPECT_FALSE(k.all_finite(n, x.data())) << bad << " at " << at << " of " << n;
        x[at] = kept;
      }
    }
  }
  EXPECT_TRUE(k.all_finite(0, nullptr));
}

TEST_P(Vec, PoolRowsMatchPlainLoops) {
  for (int stride = 1; stride <= 4; ++stride) {
    for (const int64_t outputs : {1, 5, 12, 37}) {
      const int rows = 3, cols = 3;
      const int64_t ld = (outputs - 1) * stride + cols + 2;
      auto x = random_floats(rows * ld, -1, 1, stride);
      for (float& v : x) v = std::round(v * 4);  // many equal values
      x[ld + 1] = kNan;
      std::vector<float> y(outputs), mean(outputs);
      std::vector<int32_t> index(outputs);
      const PoolRow row{outputs, rows, cols, stride, x.data(), ld};
      k.max_pool_row(row, 100, y.data(), index.data());
      k.ave_pool_row(row, 0.5f, mean.data());
      for (int64_t o = 0; o < outputs; ++o) {
        int64_t best = o * stride;
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t at = r * ld + o * stride; at < r * ld + o * stride + cols; ++at) {
            if (x[at] > x[best] || std::isnan(x[at])) best = at;
            sum += x[at];
          }
        }
        EXPECT_EQ(std::memcmp(&y[o], &x[best], sizeof(float)), 0);
        EXPECT_EQ(index[o], 100 + best);
        EXPECT_EQ(ulps(mean[o], 0.5 * sum), 0);
      }
    }
  }
}

TEST_P(Vec, PoolTablesTakeTheFirstMaximum) {
  for (const int taps : {1, 4, 6, 9}) {
    for (const int64_t n : {1, 7, 16, 50}) {
      auto x = random_floats(100, -1, 1, taps);
      for (float& v : x) v = std::round(v * 4);
      x[50] = kNan;
      std::vector<int32_t> table(taps * n), index(n);
      Rng rng(3, RngPurpose::kTest, n);
      for (int32_t& at : table) at = static_cast<int32_t>(rng.below(100));
      std::vector<float> y(n);
      k.max_pool_table(n, taps, table.data(), x.data(), y.data(), index.data());
      for (int64_t o = 0; o < n; ++o) {
        int32_t best = table[o];
        for (int t = 1; t < taps; ++t) {
          const int32_t at = table[t * n + o];
          if (x[at] > x[best] || std::isnan(x[at])) best = at;
        }
        EXPECT_EQ(index[o], best);
        EXPECT_EQ(std::memcmp(&y[o], &x[best], sizeof(float)), 0);
      }
    }
  }
}

TEST_P(Vec, RowsAreCopiedAndAddedAndNothingElse) {
  for (const int64_t n : {1, 3, 4, 5, 8, 11, 16, 17, 24, 28, 32, 40}) {
    const int64_t x_step = n + 3, y_step = n + 2;
    const auto x = random_floats(5 * x_step, -1, 1, n), before = random_floats(5 * y_step, -1, 1);
    auto copied = before, added = before;
    k.copy_rows(5, n, x.data(), x_step, copied.data(), y_step);
    k.add_rows(5, n, x.data(), x_step, added.data(), y_step);
    for (int64_t i = 0; i < 5 * y_step; ++i) {
      const int64_t row = i / y_step, column = i % y_step;
      const float in = x[row * x_step + std::min(column, n)];
      EXPECT_EQ(copied[i], column < n ? in : before[i]) << n << " at " << i;
      EXPECT_EQ(added[i], column < n ? before[i] + in : before[i]) << n << " at " << i;
    }
  }
}

TEST_P(Vec, GatherTakesEveryNth) {
  const auto x = random_floats(200, -1, 1);
  std::vector<float> y(40);
  for (int64_t stride = 1; stride <= 5; ++stride) {
    k.gather(40, stride, x.data(), y.data());
    for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(y[i], x[i * stride]);
  }
}

void naive_gemm(bool at, bool bt, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                const float* b, float beta, float* c) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += double{at ? a[l * m + i] : a[i * k + l]} * (bt ? b[j * k + l] : b[l * n + j]);
      }
      c[i * n + j] = static_cast<float>(alpha * sum + beta * c[i * n + j]);
    }
  }
}

TEST(Blas, ProductsOfAllOrientationsMatchPlainLoops) {
  const int64_t sizes[][3] = {{2, 3, 4}, {1, 17, 5}, {50, 64, 25}, {33, 1, 7}, {5, 40, 64}};
  for (const auto& [m, n, k] : sizes) {
    const auto a = random_floats(m * k, -1, 1, 1), b = random_floats(k * n, -1, 1, 2);
    for (int mode = 0; mode < 4; ++mode) {
      const Trans at = mode & 1 ? Trans::kYes : Trans::kNo;
      const Trans bt = mode & 2 ? Trans::kYes : Trans::kNo;
      const auto start = random_floats(m * n, -1, 1, 3);
      auto expected = start, c = start;
      naive_gemm(mode & 1, mode & 2, m, n, k, 2.0f, a.data(), b.data(), 0.5f, expected.data());
      gemm(at, bt, m, n, k, 2.0f, a.data(), b.data(), 0.5f, c.data());
      for (int64_t i = 0; i < m * n; ++i) ASSERT_NEAR(c[i], expected[i], 1e-4);
      for (const int threads : {1, 2, 5}) {
        c = start;
        gemm_parallel(threads, at, bt, m, n, k, 2.0f, a.data(), b.data(), 0.5f, c.data());
        for (int64_t i = 0; i < m * n; ++i) ASSERT_NEAR(c[i], expected[i], 1e-4) << threads;
      }
    }
  }
}

TEST(Blas, KnownProduct) {
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const float expected[] = {38, 44, 50, 56, 83, 98, 113, 128};
  float c[8];
  gemm(Trans::kNo, Trans::kNo, 2, 4, 3, 1, a, b, 0, c);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(c[i], expected[i]);
  const float x[] = {1, -1, 2};
  float y[2] = {kNan, kNan};  // beta 0 must not read y
  gemv(Trans::kNo, 2, 3, 1, a, x, 0, y);
  EXPECT_EQ(y[0], 5);
  EXPECT_EQ(y[1], 11);
}

TEST(Blas, DescribesItself) {
  EXPECT_EQ(blas_description().rfind("OpenBLAS 0.", 0), 0) << blas_description();
  EXPECT_NE(blas_description().find(", kernel "), std::string::npos);
}

}  // namespace
}  // namespace kinet
