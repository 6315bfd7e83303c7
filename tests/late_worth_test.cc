// Weights of late gradients (src/sync/late_worth.h): the equation, and that they are relative.
// ctest: labels=unit,core,smoke timeout=60
#include "src/sync/late_worth.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/base/check.h"
#include "tests/sync_script.h"

namespace kinet {
namespace {

// gap 0.019 of an iteration, noise 3: turn 2 * 0.019 / 0.038 = 1 at h = 0.038.
KInputs inputs() {
  KInputs in;
  in.live = 4;
  in.momentum = 0.9;
  in.momentum_norm = 0.1;
  in.weight_norm = 10;
  in.noise_known = true;
  in.noise = 24;
  in.signal = 2;
  return in;
}

TEST(LateWorthTest, FollowsItsEquation) {
  EXPECT_DOUBLE_EQ(relative_gap(inputs()), 0.019);
  EXPECT_DOUBLE_EQ(relative_noise(inputs()), 3);
  EXPECT_NEAR(turn_per_iteration(0.019, 3, 0.038), 1, 1e-12);
  EXPECT_DOUBLE_EQ(late_worth(1, 0), 1);
  EXPECT_DOUBLE_EQ(late_worth(1, 3), 0.25);
  KInputs lost = inputs();
  lost.signal = -1;
  EXPECT_EQ(relative_noise(lost), kDrowned);
  lost.noise_known = false;
  EXPECT_EQ(relative_noise(lost), 0);
}

TEST(LateWorthTest, NothingMeasuredIsWeightOne) {
  LateWeights weights(0.03);
  EXPECT_EQ(weights.next(0, 4), 1);
  EXPECT_EQ(weights.next(7, 4), 1);
  KInputs nothing = inputs();
  nothing.weight_norm = 0;
  weights.measure(nothing);
  EXPECT_EQ(weights.next(7, 4), 1);
}

TEST(LateWorthTest, AllLateByTheSameTimeCountOne) {
  LateWeights weights(0.03);
  weights.measure(inputs());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(weights.next(0.75, 4), 1);
}

TEST(LateWorthTest, LaterOnesCountLessAndTheMeanIsOne) {
  LateWeights weights(0.038);
  weights.measure(inputs());
  double sum = 0;
  constexpr int kMany = 4000;
  for (int i = 0; i < kMany; ++i) {
    const double lag = i % 4 == 0 ? 3 : 0.25;
    const double weight = weights.next(lag, 4);
    sum += weight;
    if (i > 100) {
      const double mean = (0.25 + 3 / 1.25) / 4;  // worth 1/4 once, 4/5 three times
      EXPECT_NEAR(weight, (lag == 3 ? 0.25 : 0.8) / mean, 0.2);
    }
  }
  EXPECT_NEAR(sum / kMany, 1, 0.02);
}

TEST(LateWorthTest, OneCountsTwiceAtMost) {
  LateWeights weights(0.0001);
  weights.measure(inputs());
  for (int i = 0; i < 100; ++i) weights.next(3, 4);
  EXPECT_EQ(weights.next(0, 4), 2);
}

TEST(LateWorthTest, GoesOnFromItsState) {
  LateWeights weights(0.03), other(0.03);
  weights.measure(inputs());
  weights.next(1, 4);
  weights.next(0, 4);
  other.restore(weights.state());
  EXPECT_EQ(other.next(0.5, 4), weights.next(0.5, 4));
  EXPECT_THROW(other.restore(std::vector<double>{1}), Error);
}

// By what it is worth once the norms are known, or all alike.
TEST(LateWorthTest, TheModelWeighsLateOnes) {
  for (const bool by_worth : {true, false}) {
    SyncScript s(std::string("model: 'momentum_k_sync' k_rule: 'fixed' k: 2 late_weight: ") +
                     (by_worth ? "WORTH" : "EQUAL"),
                 3);
    s.momentum_norm = 0.03;
    s.start();
    s.push(0), s.push(1);
    EXPECT_EQ(s.applied[0].members[0].weight, 1. / 3);
    s.push(0), s.push(1);
    s.push(0), s.push(2);
    ASSERT_EQ(s.applied.size(), 3U);
    const double on_time = s.applied[2].members[0].weight, late = s.applied[2].members[1].weight;
    if (by_worth) {
      EXPECT_LT(late, 0.9 * on_time);
    } else {
      EXPECT_EQ(late, on_time);
    }
  }
}

}  // namespace
}  // namespace kinet
