// ctest: labels=unit,core timeout=60
//
// Modelled step times: repeatable, and with the mean and spread that their names promise.
#include "src/sync/step_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/base/check.h"

namespace kinet {
namespace {

using Kind = StepClock::Kind;
constexpr double kMean = 0.02;

struct Moments {
  double mean = 0, variation = 0;
};

Moments moments_of(int count, const std::function<double(int)>& draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double x = draw(i);
    EXPECT_GT(x, 0);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean) / mean};
}

TEST(StepClock, TimesArePureFunctions) {
  for (const Kind kind : {Kind::kConstant, Kind::kGamma, Kind::kMachines, Kind::kExponential}) {
    const StepClock a(kind, kMean, 7), b(kind, kMean, 7), other(kind, kMean, 8);
    bool differs = false;
    for (int i = 9; i >= 0; --i) {
      EXPECT_EQ(a.seconds(3, i), b.seconds(3, i));
      differs = differs || a.seconds(3, i) != other.seconds(3, i);
    }
    EXPECT_EQ(differs, kind != Kind::kConstant);
    EXPECT_EQ(a.seconds(1, 2) != a.seconds(2, 2), kind != Kind::kConstant);
  }
}

TEST(StepClock, HaveTheirMeanAndSpread) {
  constexpr int kDraws = 20'000;
  EXPECT_EQ(StepClock(Kind::kConstant, kMean, 1).seconds(4, 5), kMean);
  const StepClock gamma(Kind::kGamma, kMean, 1), exponential(Kind::kExponential, kMean, 1);
  const StepClock machines(Kind::kMachines, kMean, 1);
  Moments m = moments_of(kDraws, [&](int i) { return gamma.seconds(0, i); });
  EXPECT_NEAR(m.mean, kMean, 0.005 * kMean);
  EXPECT_NEAR(m.variation, 0.1, 0.003);
  m = moments_of(kDraws, [&](int i) { return exponential.seconds(0, i); });
  EXPECT_NEAR(m.mean, kMean, 0.03 * kMean);
  EXPECT_NEAR(m.variation, 1, 0.03);
  m = moments_of(kDraws, [&](int i) { return machines.seconds(i, 0); });
  EXPECT_NEAR(m.mean, kMean, 0.02 * kMean);
  EXPECT_NEAR(m.variation, std::sqrt(0.36 + 0.01 * 1.36), 0.02);
  m = moments_of(kDraws, [&](int i) { return machines.seconds(5, i); });  // one machine
  EXPECT_NEAR(m.variation, 0.1, 0.003);
}

// Of the gamma clocks of the literature: the share of steps beyond 1.25 of the mean.
TEST(StepClock, HaveTheTailsOfTheLiterature) {
  constexpr int kDraws = 40'000;
  const auto tail = [](Kind kind) {
    const StepClock clock(kind, 1, 3);
    int beyond = 0;
    for (int i = 0; i < kDraws; ++i) beyond += clock.seconds(i, 0) > 1.25;
    return static_cast<double>(beyond) / kDraws;
  };
  EXPECT_NEAR(tail(Kind::kGamma), 0.0094, 0.002);
  EXPECT_NEAR(tail(Kind::kMachines), 0.2784, 0.01);
  EXPECT_NEAR(tail(Kind::kExponential), std::exp(-1.25), 0.01);
}

TEST(StepClock, NamesAreChecked) {
  for (const std::string& name : StepClock::names()) EXPECT_NO_THROW(StepClock::kind_of(name));
  try {
    StepClock::kind_of("gama");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'gamma'?"), std::string::npos);
  }
}

}  // namespace
}  // namespace kinet
