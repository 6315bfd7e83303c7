// Steps of a worker's own against a recurrence in double precision.
// ctest: labels=unit,core,smoke timeout=60
#include "src/sync/local_steps.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/base/rng.h"

namespace kinet {
namespace {

constexpr size_t kFloats = 20;

std::vector<float> numbers(uint64_t which) {
  Rng rng(5, RngPurpose::kTest, which);
  std::vector<float> out(kFloats);
  for (float& v : out) v = static_cast<float>(rng.uniform() - 0.5);
  return out;
}

RuleSetup setup(const std::string& type = "SGD", float momentum = 0.9F) {
  RuleSetup s;
  s.segments = {{0, 12, 1, 1}, {12, 8, 2, 0}};
  s.settings.momentum = momentum;
  s.settings.weight_decay = 0.01F;
  s.solver_type = type;
  return s;
}

double schedule(int64_t iteration) { return iteration < 5 ? 0.1 : 0.02; }

double lr_mult(size_t i) { return i < 12 ? 1 : 2; }
double decay_mult(size_t i) { return i < 12 ? 1 : 0; }

// Three exchanges of three steps; between them the servers send something else, the momentum stays.
TEST(LocalSteps, AreTheSolversRuleWithMomentumKeptOverExchanges) {
  LocalSteps rule;
  rule.set_up(setup(), kFloats);
  EXPECT_FALSE(rule.pushes_early());
  std::vector<double> w(kFloats), v(kFloats, 0);
  std::vector<float> out(kFloats);
  uint64_t stream = 1;
  for (int64_t exchange = 0; exchange < 3; ++exchange) {
    std::vector<float> weights = numbers(100 + static_cast<uint64_t>(exchange));
    const std::vector<float> base = weights;
    w.assign(base.begin(), base.end());
    rule.received(weights, {exchange * 3, 3, schedule});
    EXPECT_EQ(weights, base);
    for (int64_t h = 1; h <= 3; ++h) {
      std::vector<float> g = numbers(stream++);
      for (size_t i = 0; i < kFloats; ++i) {
        const double eta = schedule(exchange * 3 + h - 1) * lr_mult(i);
        v[i] = double{0.9F} * v[i] + eta * (g[i] + double{0.01F} * decay_mult(i) * w[i]);
        w[i] -= v[i];
      }
      EXPECT_EQ(rule.step(weights, g, 1, h), h == 3);
    }
    rule.push(weights, weights, out);
    for (size_t i = 0; i < kFloats; ++i) {
      ASSERT_NEAR(weights[i], w[i], 1e-6) << i;
      ASSERT_NEAR(out[i], base[i] - w[i], 1e-6) << i;
    }
  }
}

// The number of the update, of which the bias correction is made, goes on over exchanges.
TEST(LocalSteps, CountUpdatesOverExchanges) {
  LocalSteps rule;
  rule.set_up(setup("Adam"), kFloats);
  const auto optimizer = make_optimizer("Adam", setup().settings);
  std::vector<float> expected = numbers(1), history(2 * kFloats, 0.0F), weights = expected;
  for (int64_t t = 1; t <= 6; ++t) {
    if (t % 2 == 1) rule.received(weights, {t - 1, 2, schedule});
    std::vector<float> g = numbers(10 + static_cast<uint64_t>(t)), same = g;
    EXPECT_EQ(rule.step(weights, g, 1, 2 - t % 2), t % 2 == 0);
    UpdateStep update;
    update.step = t;
    update.learning_rate = schedule(t - 1);
    optimizer->update(setup().segments, update, {expected, same, history});
    EXPECT_EQ(weights, expected) << t;
  }
}

// One step without momentum is a gradient step: what is pushed is eta g, as bsp would apply.
TEST(LocalSteps, OneStepWithoutMomentumPushesTheGradient) {
  LocalSteps rule;
  RuleSetup plain = setup("SGD", 0);
  plain.settings.weight_decay = 0;
  rule.set_up(plain, kFloats);
  std::vector<float> weights(kFloats, 0.0F), g = numbers(2), out(kFloats);
  rule.received(weights, {0, 1, schedule});
  EXPECT_TRUE(rule.step(weights, g, 1, 1));
  rule.push(weights, g, out);
  for (size_t i = 0; i < kFloats; ++i) EXPECT_NEAR(out[i], 0.1 * lr_mult(i) * g[i], 1e-7);
}

// What is frozen stays where the servers have it.
TEST(LocalSteps, FrozenParametersPushNothing) {
  LocalSteps rule;
  RuleSetup frozen = setup();
  frozen.segments[1].lr_mult = 0;
  rule.set_up(frozen, kFloats);
  std::vector<float> weights = numbers(3), g = numbers(4), out(kFloats);
  rule.received(weights, {0, 1, schedule});
  rule.step(weights, g, 1, 1);
  rule.push(weights, g, out);
  for (size_t i = 12; i < kFloats; ++i) EXPECT_EQ(out[i], 0);
  EXPECT_NE(out[0], 0);
}

}  // namespace
}  // namespace kinet
