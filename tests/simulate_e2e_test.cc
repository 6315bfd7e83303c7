// `kinet simulate`: the bits of `kinet train`, at times that follow from the model alone.
// ctest: labels=integration timeout=300
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli_fixture.h"

namespace kinet {
namespace {

using Json = nlohmann::json;

constexpr double kSeconds = 120;  // for what takes a few seconds on an idle machine

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class Simulated : public CliTest {
 protected:
  using Words = std::vector<std::string>;

  ProcessResult simulate(const std::string& out, const Words& more = {}) const {
    Words all{"simulate", "solver.prototxt", "--workers",        "3",     "--out",
              out,        "--set",           "test_interval=10", "--set", "display=5"};
    all.insert(all.end(), more.begin(), more.end());
    return kinet(all);
  }

  std::string file(const std::string& name) const { return read_file(folder_ / name); }

  // Without the one thing that is of this machine: the time of day of the start.
  Words metrics(const std::string& run) const {
    Words lines;
    std::istringstream in(file(run + "/metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      Json record = Json::parse(line);
      record.erase("time");
      lines.push_back(record.dump());
    }
    return lines;
  }

  // Virtual seconds that a run took.
  double seconds_of(const std::string& run) const {
    const Json last = Json::parse(metrics(run).back());
    EXPECT_EQ(last["type"], "finish");
    return last["seconds"].get<double>();
  }
};

TEST_F(Simulated, TwoRunsHaveTheSameMetricsToTheLastBit) {
  const Words more{"--set", "max_iter=20", "--clock", "machines", "--seed", "7"};
  ASSERT_EQ(simulate("run", more).status, 0);
  const Words first = metrics("run");
  const std::string model = file("run/solver_iter_20.caffemodel");
  std::filesystem::remove_all(folder_ / "run");
  ASSERT_EQ(simulate("run", more).status, 0);
  EXPECT_EQ(metrics("run"), first);
  EXPECT_EQ(file("run/solver_iter_20.caffemodel"), model);
  EXPECT_GT(first.size(), 6u);
}

TEST_F(Simulated, WeightsAreThoseOfTrainWhateverTheClock) {
  ASSERT_EQ(simulate("a", {"--set", "max_iter=12", "--seed", "7"}).status, 0);
  ASSERT_EQ(simulate("b", {"--set", "max_iter=12", "--seed", "7", "--clock", "exponential",
                           "--step-seconds", "3", "--slow", "0:9"})
                .status,
            0);
  const ProcessResult r =
      kinet({"train", "solver.prototxt", "--workers", "3", "--threads", "1", "--out", "c", "--set",
             "max_iter=12", "--set", "test_interval=10", "--seed", "7"});
  ASSERT_EQ(r.status, 0) << r.out << r.err;
  const std::string model = "/solver_iter_12.caffemodel";
  EXPECT_EQ(file("a" + model), file("c" + model));
  EXPECT_EQ(file("b" + model), file("c" + model));
}

// Bulk-synchronous training goes at the pace of the slowest: exactly so where the network is free.
TEST_F(Simulated, ASlowWorkerMakesAllWait) {
  const Words ideal{"--set",          "max_iter=20", "--set", "comm_param.sim.link.preset=ideal",
                    "--step-seconds", "0.5"};
  ASSERT_EQ(simulate("even", ideal).status, 0);
  Words slowed = ideal;
  slowed.insert(slowed.end(), {"--slow", "1:5"});
  ASSERT_EQ(simulate("slow", slowed).status, 0);
  EXPECT_NEAR(seconds_of("even"), 20 * 0.5, 1e-9);
  EXPECT_NEAR(seconds_of("slow"), 20 * 2.5, 1e-9);
  // The first worker, who is not slow, waits four fifths of the time.
  const Words lines = metrics("slow");
  double waiting = 0;
  for (const std::string& line : lines) {
    const Json record = Json::parse(line);
    if (record["type"] == "train") waiting += record["waiting_seconds"].get<double>();
  }
  EXPECT_NEAR(waiting, 20 * 2.0, 1e-9);
}

TEST_F(Simulated, GoesOnFromItsSnapshots) {
  ASSERT_EQ(
      simulate("whole", {"--set", "max_iter=20", "--set", "snapshot=10", "--seed", "7"}).status, 0);
  const ProcessResult r =
      simulate("rest", {"--set", "max_iter=20", "--resume", "whole/solver_iter_10.solverstate"});
  ASSERT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_EQ(file("whole/solver_iter_20.caffemodel"), file("rest/solver_iter_20.caffemodel"));
}

TEST_F(Simulated, CtrlCStopsAllRanksWithASnapshot) {
  Process run({kinet_program(), "simulate", "solver.prototxt", "--workers", "4", "--out", "run",
               "--set", "max_iter=100000000", "--set", "display=50", "--set", "test_interval=0"},
              folder_.str());
  ASSERT_TRUE(run.wait_for("Iteration 50 ", kSeconds)) << run.out() << run.err();
  run.send(SIGINT);
  const ProcessResult r = run.wait(kSeconds);
  EXPECT_FALSE(r.timed_out);
  EXPECT_EQ(r.status, 128 + SIGINT) << r.out << r.err;
  EXPECT_HAS(r.out, "Optimization stopped early.");
  EXPECT_EQ(count_files("run", ".solverstate"), 1);
}

TEST_F(Simulated, AKilledRankIsNamedAndEndsTheRun) {
  std::ofstream(folder_ / "solver.prototxt", std::ios::app)
      << "comm_param { sim { link { preset: ideal } fault { kind: KILL at: 0.105 rank: 2 } } }\n";
  const ProcessResult r = simulate("run", {"--set", "max_iter=100"});
  EXPECT_FALSE(r.timed_out);
  EXPECT_EQ(r.status, 1) << r.out << r.err;
  EXPECT_HAS(r.err, "rank 2");
  EXPECT_HAS(file("run/metrics.jsonl"), "failed: iteration 10");
}

TEST_F(Simulated, WhatCannotBeSaysWhy) {
  const auto error = [&](const Words& words) {
    const ProcessResult r = kinet(words);
    EXPECT_EQ(r.status, 2) << r.out << r.err;
    return r.err;
  };
  EXPECT_HAS(error({"simulate", "solver.prototxt"}), "--workers");
  EXPECT_HAS(error({"simulate", "solver.prototxt", "--workers", "1"}), "--workers");
  const Words two{"simulate", "solver.prototxt", "--workers", "2"};
  const auto with = [&](const Words& more) {
    Words all = two;
    all.insert(all.end(), more.begin(), more.end());
    return error(all);
  };
  EXPECT_HAS(with({"--clock", "gama"}), "did you mean 'gamma'?");
  EXPECT_HAS(with({"--slow", "2:5"}), "there is no worker 2 of 2");
  EXPECT_HAS(with({"--step-seconds", "0"}), "--step-seconds 0");
  ASSERT_EQ(simulate("used").status, 0);
  EXPECT_HAS(with({"--out", "used"}), "a run lies there already");
}

// A loss that is not finite ends all ranks, with one message.
TEST_F(Simulated, NotFiniteEndsTheRunWithOneError) {
  const ProcessResult r = simulate("run", {"--set", "base_lr=3e38", "--set", "max_iter=50"});
  EXPECT_EQ(r.status, 1);
  EXPECT_HAS(r.err, "not finite");
}

}  // namespace
}  // namespace kinet
