// Mean, spread and paired intervals against values worked out by hand. ctest:
// labels=unit,core,smoke
#include "src/sim/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kinet {
namespace {

TEST(Statistics, MeanAndDeviationOfTheSample) {
  const Summary s = summarize({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_EQ(s.count, 8);
  EXPECT_DOUBLE_EQ(s.mean, 5);
  EXPECT_NEAR(s.deviation, std::sqrt(32.0 / 7), 1e-12);
  EXPECT_EQ(summarize({3}).deviation, 0);
  EXPECT_EQ(summarize({}).count, 0);
}

// Tables of Student's t, 0.975.
TEST(Statistics, StudentsT) {
  EXPECT_NEAR(t_975(1), 12.706, 5e-4);
  EXPECT_NEAR(t_975(4), 2.776, 5e-4);
  EXPECT_NEAR(t_975(30), 2.042, 5e-4);
  EXPECT_NEAR(t_975(40), 2.021, 5e-4);
  EXPECT_NEAR(t_975(120), 1.980, 5e-4);
  EXPECT_NEAR(t_975(100000), 1.960, 5e-4);
}

// Ratios 2, 4 and 8: ln 2 times 1, 2, 3; mean 2 ln 2, deviation ln 2, half width
// 4.3027 ln 2 / sqrt(3).
TEST(Statistics, PairedSpeedUp) {
  const auto s = speed_up({2, 8, 16}, {1, 2, 2});
  ASSERT_TRUE(s.has_value());
  EXPECT_EQ(s->pairs, 3);
  EXPECT_NEAR(s->gain, 3, 1e-12);  // geometric mean 4
  const double half = 4.3027 * std::log(2.0) / std::sqrt(3.0);
  EXPECT_NEAR(s->low, 4 * std::exp(-half) - 1, 1e-9);
  EXPECT_NEAR(s->high, 4 * std::exp(half) - 1, 1e-9);
  EXPECT_FALSE(s->clear());  // -28 % to +2135 %
}

// The seed's own effect cancels: times differ by a factor of ten, ratios do not differ at all.
TEST(Statistics, PairsCancelWhatTheSeedDoes) {
  const auto s = speed_up({15, 150}, {10, 100});
  ASSERT_TRUE(s.has_value());
  EXPECT_NEAR(s->low, 0.5, 1e-12);
  EXPECT_NEAR(s->high, 0.5, 1e-12);
  EXPECT_TRUE(s->clear());
  const auto inverse = speed_up({10, 100}, {15, 150});
  EXPECT_NEAR(inverse->gain, 1 / 1.5 - 1, 1e-12);
}

TEST(Statistics, PairsThatLackOneAreLeftOut) {
  const auto s = speed_up({10, std::nullopt, 30}, {5, 5, std::nullopt});
  ASSERT_TRUE(s.has_value());
  EXPECT_EQ(s->pairs, 1);
  EXPECT_DOUBLE_EQ(s->gain, 1);
  EXPECT_FALSE(s->has_interval);
  EXPECT_FALSE(s->clear());
  EXPECT_FALSE(speed_up({std::nullopt}, {1}).has_value());
}

}  // namespace
}  // namespace kinet
