// ctest: labels=unit,core timeout=60
//
// Profiles from the records of a run: what went in as modelled times comes out as their figures.
#include "src/sim/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/files.h"
#include "src/sim/cluster_profile.h"
#include "src/solver/metrics.h"
#include "tests/data_files.h"

namespace kinet {
namespace {

using Clock = StepSettings::Clock;

class CalibrateTest : public testing::Test {
 protected:
  // A run whose rounds are a gradient of each of `workers`, with the times of `times`.
  void write_rounds(const StepTimes& times, int workers, int rounds, double service = 0) {
    MetricsWriter writer(folder_ / "metrics.jsonl");
    writer.on_start(start(workers));
    double now = 0;
    for (int i = 0; i < rounds; ++i) {
      RoundRecord r;
      r.round = i + 1;
      r.iteration = i + 1;
      for (int w = 0; w < workers; ++w) {
        const double seconds = times.seconds(w, i);
        r.members.push_back({w, i, 1.0 / workers, 0, 0.1, "fresh", seconds});
        now += seconds / workers;
      }
      r.seconds = now;
      r.service = service * workers;
      if (i == 3) r.note = "worker 1 lost; k 3";
      if (i == 5) r.note = "worker 1 joins";
      writer.on_round(r);
    }
  }
  static StartRecord start(int workers) {
    StartRecord s;
    s.net_name = "LeNet";
    s.workers = workers;
    s.batch = 64;
    s.parameters = 100'000;
    return s;
  }
  std::string text() { return calibrate(folder_.str()); }
  ClusterProfile profile() {
    return ClusterProfile::load(folder_.write("lab.prototxt", text()), 9);
  }
  static double mean_of(const ClusterProfile& p, int worker, int steps = 4000) {
    double sum = 0;
    for (int i = 0; i < steps; ++i) sum += p.steps->seconds(worker, i);
    return sum / steps;
  }
  TemporaryFolder folder_;
};

TEST_F(CalibrateTest, MachinesAndTheirSpreadComeBack) {
  StepSettings s;
  s.clock = Clock::kMachines;
  s.mean = 0.02;
  s.task_variation = 0.15;
  const auto times = make_step_times(s, 4);
  write_rounds(*times, 6, 3000);
  const ClusterProfile p = profile();
  for (int w = 0; w < 6; ++w) {
    double real = 0;
    for (int i = 0; i < 3000; ++i) real += times->seconds(w, i) / 3000;
    EXPECT_NEAR(mean_of(p, w), real, 0.01 * real) << w;
  }
  EXPECT_CONTAINS(text(), "18000 steps of 6 workers");
  EXPECT_CONTAINS(text(), "task_variation: 0.1");
  EXPECT_EQ(text().find("slow_probability"), std::string::npos);
  ASSERT_EQ(p.events.size(), 2U);
  EXPECT_EQ(p.events[0].kind, ClusterEvent::Kind::kLeave);
  EXPECT_EQ(p.events[0].worker, 1);
  EXPECT_EQ(p.events[1].kind, ClusterEvent::Kind::kJoin);
  EXPECT_GT(p.events[1].at, p.events[0].at);
}

TEST_F(CalibrateTest, SlowDownsAreToldFromSpread) {
  StepSettings s;
  s.clock = Clock::kGamma;
  s.mean = 0.01;
  s.slow_probability = 0.1;
  s.slow_factor = 5;
  write_rounds(*make_step_times(s, 4), 3, 4000);
  const ClusterProfile p = profile();
  EXPECT_NEAR(p.steps->mean(), 0.014, 0.0002);
  EXPECT_NEAR(mean_of(p, 1, 20'000), 0.014, 0.0004);
  const std::string all = text();
  const auto figure = [&](const std::string& field) {
    return std::stod(all.substr(all.find(field + ": ") + field.size() + 2));
  };
  EXPECT_NEAR(figure("slow_probability"), 0.1, 0.01);
  EXPECT_NEAR(figure("slow_factor"), 5, 0.1);
  EXPECT_NEAR(figure("task_variation"), 0.1, 0.005);
}

TEST_F(CalibrateTest, TheServersTimeIsDividedIntoBytesAndTheRest) {
  StepSettings s;
  s.mean = 0.01;
  write_rounds(*make_step_times(s, 1), 2, 10, 200e-6);
  ServerCosts costs = profile().server;
  EXPECT_NEAR(costs.seconds(400'000, 3), 200e-6, 1e-8);
  EXPECT_NEAR(costs.per_push, 80e-6, 1e-8);  // 1.2 MB at 10 GB/s are 120 us
  std::filesystem::remove(folder_ / "metrics.jsonl");
  write_rounds(*make_step_times(s, 1), 2, 10, 60e-6);
  costs = profile().server;
  EXPECT_NEAR(costs.seconds(400'000, 3), 60e-6, 1e-8);
  EXPECT_EQ(costs.per_push, 0);
}

TEST_F(CalibrateTest, RecordedStepsAreATrace) {
  StepSettings s;
  s.clock = Clock::kExponential;
  s.mean = 0.5;
  const auto times = make_step_times(s, 2);
  write_rounds(*times, 3, 50);
  const StepTrace trace =
      StepTrace::read(folder_.write("steps.csv", recorded_steps(folder_.str())));
  ASSERT_EQ(trace.by_worker.size(), 3U);
  for (int i = 0; i < 50; ++i) {
    EXPECT_NEAR(trace.by_worker[2][i], times->seconds(2, i), 1e-5 * times->seconds(2, i));
  }
}

TEST_F(CalibrateTest, ARunWithoutServersGivesItsMeanStep) {
  {
    MetricsWriter writer(folder_ / "metrics.jsonl");
    writer.on_start(start(2));
    for (int i = 0; i < 4; ++i) {
      DisplayRecord d;
      d.iteration = 10 * i;
      d.seconds = 0.5 * i;
      d.iterations_per_second = 20;
      d.waiting_seconds = 0.1;  // of 10 iterations
      writer.on_display(d);
    }
  }
  EXPECT_DOUBLE_EQ(profile().steps->seconds(0, 0), 0.04);
  EXPECT_CONTAINS(message_of([&] { recorded_steps(folder_.str()); }), "no single steps");
  folder_.write("solver.prototxt", "base_lr: 0.1 comm_param { transport: \"tcp\" }");
  EXPECT_DOUBLE_EQ(profile().link.network.latency, 7.2e-6);
}

TEST_F(CalibrateTest, WhatIsNoRunIsRefused) {
  EXPECT_CONTAINS(message_of([&] { text(); }), "there is no");
  MetricsWriter writer(folder_ / "metrics.jsonl");
  writer.on_start(start(2));
  EXPECT_CONTAINS(message_of([&] { text(); }), "no step times");
}

}  // namespace
}  // namespace kinet
