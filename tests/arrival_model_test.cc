// The what-if play of the workers' step times: against arithmetic where times are constant, against
// order statistics where they are exponential.
// ctest: labels=unit,core,smoke timeout=60
#include "src/sync/arrival_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/base/check.h"
#include "src/base/rng.h"

namespace kinet {
namespace {

ArrivalModel constant(const std::vector<double>& seconds) {
  ArrivalModel model;
  for (size_t worker = 0; worker < seconds.size(); ++worker) {
    for (int i = 0; i < 8; ++i) model.add(static_cast<int>(worker), seconds[worker]);
  }
  return model;
}

double harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

TEST(ArrivalModel, ConstantTimesAreExact) {
  const ArrivalModel model = constant({1, 1, 1, 1});
  const Forecast all = model.forecast(4, 4, {});
  EXPECT_DOUBLE_EQ(all.throughput, 4);
  EXPECT_DOUBLE_EQ(all.round_seconds, 1);
  EXPECT_DOUBLE_EQ(all.lag, 0);
  EXPECT_DOUBLE_EQ(model.forecast(4, 2, {}).throughput, 4);
}

TEST(ArrivalModel, ServiceTimesAreAddedToARound) {
  const ArrivalModel model = constant({1, 1, 1, 1});
  const PlayOptions options{{.per_gradient = 0.01, .per_round = 0.1}, false};
  EXPECT_NEAR(model.forecast(4, 4, options).round_seconds, 1 + 4 * 0.01 + 0.1, 1e-9);
}

TEST(ArrivalModel, AServerThatIsTooSlowSetsTheSpeed) {
  const ArrivalModel model = constant({1, 1, 1, 1});
  // A round of one costs 0.5 seconds, so there are two gradients a second at k = 1, whatever the
  // workers could do; at k = 4 a round takes 1 + 0.4 + 0.1.
  const PlayOptions options{{.per_gradient = 0.1, .per_round = 0.4}, false};
  EXPECT_NEAR(model.forecast(4, 1, options).throughput, 2, 0.01);
  EXPECT_NEAR(model.forecast(4, 4, options).throughput, 4 / 1.8, 1e-9);
}

TEST(ArrivalModel, AStragglerIsWaitedForOnlyWhenKCountsOnIt) {
  const ArrivalModel model = constant({1, 1, 1, 5});
  EXPECT_DOUBLE_EQ(model.forecast(4, 4, {}).throughput, 4.0 / 5);
  EXPECT_GE(model.forecast(4, 3, {}).throughput, 3);
  EXPECT_LE(model.forecast(4, 3, {}).throughput, 3.2 + 1e-9);
  EXPECT_NEAR(model.forecast(4, 1, {}).throughput, 3.2, 0.05);  // 1 + 1 + 1 + 1/5
}

TEST(ArrivalModel, DroppedLateGradientsDoNotCount) {
  const ArrivalModel model = constant({1, 1, 1, 5});
  const Forecast dropped = model.forecast(4, 3, {{}, true});
  EXPECT_NEAR(dropped.throughput, 3, 1e-9);  // the straggler's never arrive in time
  EXPECT_EQ(dropped.lag, 0);
}

// Exponential times have no memory: those that go on after a publication are as good as those that
// begin, so the round takes E[X_(k:N)] = H_N - H_(N-k) means.
TEST(ArrivalModel, ExponentialTimesFollowOrderStatistics) {
  constexpr int kWorkers = 16, kWindow = 64, kClusters = 60;
  for (const int k : {1, 2, 4, 8, 12, 16}) {
    double sum = 0;
    for (int cluster = 0; cluster < kClusters; ++cluster) {
      ArrivalModel model(kWindow);
      Rng rng(7, RngPurpose::kTest, cluster);
      for (int i = 0; i < kWorkers * kWindow; ++i) {
        model.add(i % kWorkers, -std::log(1 - rng.uniform()) + 1e-9);
      }
      sum += model.forecast(kWorkers, k, {}).round_seconds;
    }
    const double theory = harmonic(kWorkers) - harmonic(kWorkers - k);
    EXPECT_NEAR(sum / kClusters, theory, 0.05 * theory) << "k " << k;
  }
}

// Little's law: N in flight, k a round.
TEST(ArrivalModel, MeanLagIsNOverKMinusOneRounds) {
  ArrivalModel model;
  Rng rng(3);
  for (int i = 0; i < 32 * 8; ++i) model.add(i % 32, 0.5 + rng.uniform());
  for (const int k : {2, 4, 8, 16, 32}) {
    EXPECT_NEAR(model.forecast(32, k, {}).lag, 32.0 / k - 1, 0.1 * (32.0 / k - 1) + 1e-12);
  }
}

TEST(ArrivalModel, OnlyTheLastStepsCount) {
  ArrivalModel model(2);
  for (const double seconds : {9.0, 1.0, 1.0}) model.add(0, seconds);
  EXPECT_DOUBLE_EQ(model.forecast(1, 1, {}).round_seconds, 1);
}

TEST(ArrivalModel, UnknownWorkersCountAsSlowAsTheSlowest) {
  ArrivalModel model;
  model.add(0, 1);
  EXPECT_FALSE(model.known(4));
  model.add(1, 3);
  EXPECT_TRUE(model.known(4));
  EXPECT_DOUBLE_EQ(model.forecast(4, 4, {}).round_seconds, 3);
  EXPECT_NEAR(model.forecast(4, 1, {}).throughput, 1 + 3 / 3.0, 0.1);
}

TEST(ArrivalModel, NonsenseTimesAreIgnored) {
  ArrivalModel model;
  for (const double seconds : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    model.add(0, seconds);
  }
  EXPECT_EQ(model.workers(), 0);
  EXPECT_EQ(model.forecast(3, 2, {}).throughput, 0);
}

TEST(ArrivalModel, TheSamePlayTwiceAndAfterASnapshot) {
  ArrivalModel model;
  Rng rng(5);
  for (int i = 0; i < 90; ++i) model.add(i % 11, 0.1 + rng.uniform());
  model.remove(4);
  ArrivalModel other;
  other.restore(model.state());
  for (const int k : {1, 3, 10}) {
    const double first = model.forecast(10, k, {}).throughput;
    EXPECT_EQ(model.forecast(10, k, {}).throughput, first);
    EXPECT_EQ(other.forecast(10, k, {}).throughput, first);
  }
  EXPECT_THROW(other.restore(std::vector<double>{1, 5, 0.1}), Error);
  EXPECT_THROW(model.forecast(4, 5, {}), Error);
}

TEST(ArrivalModel, TheExponentialReferenceHasMeanOne) {
  const ArrivalModel model = exponential_workers(8);
  EXPECT_NEAR(model.forecast(8, 1, {}).throughput, 8, 0.8);
  EXPECT_LT(model.forecast(8, 8, {}).throughput, 5);
}

}  // namespace
}  // namespace kinet
