// ctest: labels=unit,core timeout=60
//
// Modelled step times: pure functions, the mean and spread that their names promise, the bits of
// StepClock where they are the same, and the order statistics that k-synchronisation lives on.
#include "src/sim/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "src/sync/step_clock.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

using Clock = StepSettings::Clock;

StepSettings settings_of(Clock clock, double mean = 1) {
  StepSettings s;
  s.clock = clock;
  s.mean = mean;
  if (clock == Clock::kShiftedExponential) s.shift = 0.4 * mean;
  if (clock == Clock::kTrace) {
    s.mean = 0;
    s.trace = std::make_shared<const StepTrace>(StepTrace{"", {{1, 2, 3}, {4, 5}}});
  }
  return s;
}

constexpr Clock kAll[] = {Clock::kConstant,          Clock::kGamma,  Clock::kMachines,
                          Clock::kExponential,       Clock::kPareto, Clock::kTrace,
                          Clock::kShiftedExponential};

struct Moments {
  double mean = 0, deviation = 0, least = 1e300;
};

Moments moments_of(int count, const std::function<double(int)>& draw) {
  double sum = 0, squares = 0, least = 1e300;
  for (int i = 0; i < count; ++i) {
    const double x = draw(i);
    sum += x;
    squares += x * x;
    least = std::min(least, x);
  }
  const double mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean), least};
}

TEST(StepTimes, ArePureFunctionsOfSeedWorkerAndGradient) {
  for (const Clock clock : kAll) {
    StepSettings s = settings_of(clock);
    s.slow_probability = 0.2;
    const auto a = make_step_times(s, 7), b = make_step_times(s, 7), other = make_step_times(s, 8);
    int same = 0;
    for (int i = 49; i >= 0; --i) {
      EXPECT_EQ(a->seconds(3, i), b->seconds(3, i));
      EXPECT_GT(a->seconds(3, i), 0);
      same += a->seconds(3, i) == other->seconds(3, i);
    }
    EXPECT_LT(same, 50) << "the seed makes no difference to clock " << static_cast<int>(clock);
  }
}

TEST(StepTimes, ShareTheirBitsWithStepClock) {
  const std::vector<std::pair<Clock, StepClock::Kind>> same{
      {Clock::kConstant, StepClock::Kind::kConstant},
      {Clock::kGamma, StepClock::Kind::kGamma},
      {Clock::kMachines, StepClock::Kind::kMachines},
      {Clock::kExponential, StepClock::Kind::kExponential}};
  for (const auto& [clock, kind] : same) {
    const auto times = make_step_times(settings_of(clock, 0.02), 5);
    const StepClock reference(kind, 0.02, 5);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(times->seconds(i, 3 * i), reference.seconds(i, 3 * i));
  }
}

// A clock's times are part of what a seed stands for. Figures: the same draws in another program.
TEST(StepTimes, DoNotChangeFromReleaseToRelease) {
  const StepClock gamma(StepClock::Kind::kGamma, 1, 1), machines(StepClock::Kind::kMachines, 1, 1);
  const StepClock exponential(StepClock::Kind::kExponential, 1, 1);
  EXPECT_DOUBLE_EQ(gamma.seconds(2, 3), 0.9175604123966455);
  EXPECT_DOUBLE_EQ(machines.seconds(2, 3), 0.503634521153122);
  EXPECT_DOUBLE_EQ(exponential.seconds(2, 3), 0.33253623975083796);
}

TEST(StepTimes, HaveTheirMeanAndSpread) {
  constexpr int kDraws = 40'000;
  const auto check = [](const StepSettings& s, double deviation, double tolerance) {
    const auto times = make_step_times(s, 1);
    const Moments m = moments_of(kDraws, [&](int i) { return times->seconds(i, i); });
    EXPECT_NEAR(m.mean, times->mean(), tolerance * times->mean()) << times->describe();
    EXPECT_NEAR(m.deviation, deviation, 2 * tolerance * deviation) << times->describe();
    return m;
  };
  StepSettings s = settings_of(Clock::kGamma, 3);
  s.task_variation = 0.25;
  check(s, 0.75, 0.01);
  s.task_variation = 1.6;  // a shape below 1
  check(s, 4.8, 0.03);
  s = settings_of(Clock::kMachines, 2);
  s.task_variation = 0.2;
  s.machine_variation = 0.5;
  check(s, 2 * std::sqrt(0.25 + 0.04 * 1.25), 0.02);
  const Moments shifted = check(settings_of(Clock::kShiftedExponential, 2), 1.2, 0.02);
  EXPECT_NEAR(shifted.least, 0.8, 0.001);
  s = settings_of(Clock::kPareto, 2);
  s.shape = 6;
  const Moments pareto = check(s, 2 / std::sqrt(6.0 * 4), 0.03);
  EXPECT_NEAR(pareto.least, 2 * 5.0 / 6, 0.001);
  s = settings_of(Clock::kConstant, 2);
  s.slow_probability = 0.1;
  s.slow_factor = 5;
  EXPECT_DOUBLE_EQ(make_step_times(s, 1)->mean(), 2.8);
  check(s, 8 * 0.3, 0.02);
}

TEST(StepTimes, SlowWorkersAreSlowerByTheirFactor) {
  StepSettings s = settings_of(Clock::kMachines);
  const auto plain = make_step_times(s, 4);
  s.slow = {{2, 5}, {3, 0.5}};
  const auto slowed = make_step_times(s, 4);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(slowed->seconds(1, i), plain->seconds(1, i));
    EXPECT_EQ(slowed->seconds(2, i), 5 * plain->seconds(2, i));
    EXPECT_EQ(slowed->seconds(3, i), 0.5 * plain->seconds(3, i));
  }
}

TEST(StepTimes, ATraceIsPlayedInItsOrderAndAgain) {
  StepSettings s = settings_of(Clock::kTrace);
  const auto times = make_step_times(s, 1);
  const std::vector<double> first{1, 2, 3, 1, 2, 3, 1}, second{4, 5, 4, 5};
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(times->seconds(0, i), first[i]);
  for (size_t i = 0; i < second.size(); ++i) EXPECT_EQ(times->seconds(1, i), second[i]);
  EXPECT_DOUBLE_EQ(times->mean(), 3);
  // Worker 2 has the times of worker 0, from a place of its own on.
  bool shifted = false;
  for (int w = 2; w < 20; w += 2) {
    const double begin = times->seconds(w, 0);
    EXPECT_EQ(times->seconds(w, 1), begin == 3 ? 1 : begin + 1);
    shifted = shifted || begin != 1;
  }
  EXPECT_TRUE(shifted);
  s.mean = 0.3;  // scaled to it
  EXPECT_DOUBLE_EQ(make_step_times(s, 1)->seconds(0, 1), 0.2);
  EXPECT_DOUBLE_EQ(make_step_times(s, 1)->mean(), 0.3);
}

TEST(StepTrace, IsReadFromLines) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("steps.csv", "# of a run\nworker,seconds\n7, 0.5\n3\t0.25\r\n\n7,1.5\n");
  const StepTrace trace = StepTrace::read(path);
  ASSERT_EQ(trace.by_worker.size(), 2U);
  EXPECT_EQ(trace.by_worker[0], std::vector<double>{0.25});  // worker 3
  EXPECT_EQ(trace.by_worker[1], (std::vector<double>{0.5, 1.5}));
  EXPECT_EQ(trace.times(), 3U);
  EXPECT_DOUBLE_EQ(trace.mean(), 0.75);
}

TEST(StepTrace, EveryFaultyLineIsNamed) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    return message_of([&] { StepTrace::read(folder.write("t.csv", text)); });
  };
  const std::string message = read("0,1\nfoo\n1,-2\n-1,3\n0,1,2\n0,inf\n");
  for (const char* line : {"t.csv:2:", "t.csv:3:", "t.csv:4:", "t.csv:5:", "t.csv:6:"}) {
    EXPECT_CONTAINS(message, line);
  }
  EXPECT_CONTAINS(message, "worker,seconds");
  EXPECT_CONTAINS(read("# nothing\n"), "no step times");
  EXPECT_CONTAINS(message_of([&] { StepTrace::read(folder / "none.csv"); }), "none.csv");
}

// ---- order statistics: what waiting for k of N costs, in means of one step --------------------

// Machines are drawn anew for each trial, as in the tables of the literature's model.
std::vector<double> order_statistics(const StepTimes& times, int workers, int trials) {
  std::vector<double> sums(workers, 0), row(workers);
  for (int t = 0; t < trials; ++t) {
    for (int w = 0; w < workers; ++w) row[w] = times.seconds(t * workers + w, 0);
    std::sort(row.begin(), row.end());
    for (int w = 0; w < workers; ++w) sums[w] += row[w];
  }
  for (double& s : sums) s /= trials * times.mean();
  return sums;
}

// E[max of N] / mean, gamma with V = 0.1, and machines with U = 0.6.
TEST(StepTimes, TheSlowestOfManyIsAsSlowAsTheoryHasIt) {
  const int workers[] = {2, 4, 8, 16, 24, 32, 48, 64};
  const double alike[] = {1.056, 1.104, 1.147, 1.185, 1.206, 1.218, 1.236, 1.250};
  const double mixed[] = {1.34, 1.67, 2.01, 2.35, 2.52, 2.68, 2.88, 3.01};
  const auto gamma = make_step_times(settings_of(Clock::kGamma), 11);
  const auto machines = make_step_times(settings_of(Clock::kMachines), 12);
  for (size_t i = 0; i < std::size(workers); ++i) {
    const int n = workers[i];
    EXPECT_NEAR(order_statistics(*gamma, n, 2000).back(), alike[i], 0.005 * alike[i]) << n;
    EXPECT_NEAR(order_statistics(*machines, n, 60'000 / n + 3000).back(), mixed[i], 0.02 * mixed[i])
        << n;
  }
}

TEST(StepTimes, TheKthOfSixteenComesWhenTheorySays) {
  const int ks[] = {1, 2, 4, 8, 12, 14, 15, 16};
  const double alike[] = {0.832, 0.874, 0.923, 0.989, 1.055, 1.099, 1.131, 1.184};
  const double mixed[] = {0.245, 0.359, 0.530, 0.848, 1.254, 1.581, 1.843, 2.345};
  const auto of = [](Clock clock, int trials) {
    return order_statistics(*make_step_times(settings_of(clock), 21), 16, trials);
  };
  const std::vector<double> gamma = of(Clock::kGamma, 4000),
                            machines = of(Clock::kMachines, 12'000),
                            exponential = of(Clock::kExponential, 30'000);
  for (size_t i = 0; i < std::size(ks); ++i) {
    const int k = ks[i];
    EXPECT_NEAR(gamma[k - 1], alike[i], 0.005 * alike[i]) << k;
    EXPECT_NEAR(machines[k - 1], mixed[i], 0.02 * mixed[i]) << k;
    double exact = 0;  // E[k-th of N exponentials] = sum of 1 / j for j = N - k + 1 .. N
    for (int j = 16 - k + 1; j <= 16; ++j) exact += 1.0 / j;
    EXPECT_NEAR(exponential[k - 1], exact, 0.02 * exact) << k;
  }
}

// Updates a second of asynchronous over synchronous training, without a network: the median over
// clusters whose machines were drawn once.
TEST(StepTimes, AsynchronousTrainingGainsWhatTheLiteratureReports) {
  const auto machines = make_step_times(settings_of(Clock::kMachines), 31);
  const auto ratio_of = [&](int workers, int cluster) {
    constexpr int kSteps = 30;
    std::vector<double> own(workers, 0);
    double slowest = 0;
    for (int i = 0; i < kSteps; ++i) {
      double longest = 0;
      for (int w = 0; w < workers; ++w) {
        const double s = machines->seconds(cluster * workers + w, i);
        own[w] += s;
        longest = std::max(longest, s);
      }
      slowest += longest;
    }
    double rate = 0;  // gradients a second, all workers
    for (const double seconds : own) rate += kSteps / seconds;
    return rate * slowest / kSteps / workers;
  };
  const auto median = [&](int workers, int clusters) {
    std::vector<double> ratios(clusters);
    for (int c = 0; c < clusters; ++c) ratios[c] = ratio_of(workers, c);
    std::nth_element(ratios.begin(), ratios.begin() + clusters / 2, ratios.end());
    return ratios[clusters / 2];
  };
  EXPECT_NEAR(median(4, 3000), 2.08, 0.03 * 2.08);
  EXPECT_NEAR(median(16, 1500), 3.36, 0.03 * 3.36);
  EXPECT_NEAR(median(64, 600), 4.55, 0.03 * 4.55);
}

}  // namespace
}  // namespace kinet
