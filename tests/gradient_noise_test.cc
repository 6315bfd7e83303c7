// The noise estimator against gradients drawn from a known normal distribution, everything in
// double. ctest: labels=unit,core,smoke timeout=60
#include "src/sync/gradient_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/base/check.h"
#include "src/base/rng.h"

namespace kinet {
namespace {

constexpr int kSize = 200;

// Gradients G + sigma_i z with a covariance that is not uniform.
struct Source {
  std::vector<double> mean, sigma;
  double noise = 0, signal = 0;  // the true T and G2

  explicit Source(double scale) {
    for (int i = 0; i < kSize; ++i) {
      mean.push_back(0.1 * std::sin(i));
      sigma.push_back(scale * (1 + i % 5));
      noise += sigma[i] * sigma[i];
      signal += mean[i] * mean[i];
    }
  }

  bool round(int k, uint64_t number, GradientNoise& estimate) const {
    Rng rng(1, RngPurpose::kTest, number, k);
    std::vector<double> norms2(k), sum(kSize);
    for (int j = 0; j < k; ++j) {
      for (int i = 0; i < kSize; ++i) {
        const double g = mean[i] + sigma[i] * rng.gaussian();
        norms2[j] += g * g;
        sum[i] += g;
      }
    }
    double mean2 = 0;
    for (const double s : sum) mean2 += s / k * (s / k);
    return estimate.add(norms2, mean2);
  }
};

TEST(GradientNoise, FindsTraceAndSignalForEveryK) {
  const Source source(0.05);
  for (const int k : {2, 3, 8, 32}) {
    GradientNoise estimate(1e9);  // no fading: all rounds count alike
    for (int round = 0; round < 4000 / k; ++round) EXPECT_TRUE(source.round(k, round, estimate));
    EXPECT_TRUE(estimate.known());
    EXPECT_NEAR(estimate.noise(), source.noise, 0.02 * source.noise) << "k " << k;
    EXPECT_NEAR(estimate.signal(), source.signal, 0.12 * source.signal) << "k " << k;
  }
}

TEST(GradientNoise, MixedKAgree) {
  const Source source(0.05);
  GradientNoise estimate(1e9);
  for (int round = 0; round < 600; ++round) source.round(1 + round % 9, round, estimate);
  EXPECT_NEAR(estimate.noise(), source.noise, 0.02 * source.noise);
  EXPECT_NEAR(estimate.signal(), source.signal, 0.15 * source.signal);
}

TEST(GradientNoise, FollowsAChange) {
  const Source quiet(0.02), loud(0.2);
  GradientNoise estimate;
  for (int round = 0; round < 60; ++round) quiet.round(16, round, estimate);
  EXPECT_NEAR(estimate.noise(), quiet.noise, 0.1 * quiet.noise);
  for (int round = 0; round < 100; ++round) loud.round(16, round, estimate);
  EXPECT_NEAR(estimate.noise(), loud.noise, 0.1 * loud.noise);
}

// By hand: (3, 0) and (1, 0): m2 = 5, q = 4, T = 2 (5 - 4), G2 = 2 * 4 - 5.
TEST(GradientNoise, TwoGradientsByHand) {
  GradientNoise estimate;
  EXPECT_TRUE(estimate.add(std::vector<double>{9, 1}, 4));
  EXPECT_NEAR(estimate.noise(), 2, 1e-12);
  EXPECT_NEAR(estimate.signal(), 3, 1e-12);
  EXPECT_FALSE(estimate.known());  // one degree of freedom is not enough to decide with
}

TEST(GradientNoise, EqualGradientsHaveNoNoise) {
  GradientNoise estimate;
  for (int round = 0; round < 5; ++round) estimate.add(std::vector<double>{4, 4, 4}, 4);
  EXPECT_NEAR(estimate.noise(), 0, 1e-12);
  EXPECT_NEAR(estimate.signal(), 4, 1e-12);
}

TEST(GradientNoise, OneGradientSaysNothing) {
  GradientNoise estimate;
  EXPECT_FALSE(estimate.add(std::vector<double>{4}, 4));
  EXPECT_FALSE(estimate.add(std::vector<double>{}, 0));
  EXPECT_FALSE(estimate.known());
  const Source source(0.05);
  for (int round = 0; round < 4; ++round) source.round(8, round, estimate);
  const double before = estimate.noise();
  for (int round = 0; round < 1000; ++round) source.round(1, round, estimate);
  EXPECT_EQ(estimate.noise(), before);
}

TEST(GradientNoise, NumbersThatAreNotFiniteAreLeftOut) {
  GradientNoise estimate;
  estimate.add(std::vector<double>{9, 1}, 4);
  EXPECT_FALSE(estimate.add(std::vector<double>{std::nan(""), 1}, 4));
  EXPECT_FALSE(estimate.add(std::vector<double>{9, 1}, std::numeric_limits<double>::infinity()));
  EXPECT_NEAR(estimate.noise(), 2, 1e-12);
}

TEST(GradientNoise, GoesOnFromASnapshot) {
  const Source source(0.05);
  GradientNoise one, two;
  for (int round = 0; round < 10; ++round) source.round(4, round, one);
  two.restore(one.state());
  for (int round = 10; round < 20; ++round) {
    source.round(4, round, one);
    source.round(4, round, two);
  }
  EXPECT_EQ(one.noise(), two.noise());
  EXPECT_EQ(one.signal(), two.signal());
  EXPECT_EQ(one.known(), two.known());
  EXPECT_THROW(two.restore(std::vector<double>{1, 2}), Error);
}

}  // namespace
}  // namespace kinet
