// DANA on a real net: dana_zero and dana_slim are one under one recorded stream of gradients, and
// on a virtual cluster the gaps of the family are in the order that its authors give. ctest:
// labels=unit,core timeout=120
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/sim/net_problem.h"
#include "src/sim/virtual_cluster.h"
#include "src/sync/step_clock.h"
#include "tests/rule_run.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

constexpr int kWorkers = 8;

class DanaNetTest : public SolverTest {
 protected:
  // A small CNN: convolution, pooling, two full layers.
  std::shared_ptr<const SolverConfig> config(const std::string& fields) const {
    const std::string fill = " weight_filler { type: 'xavier' } } }\n";
    std::string text = net();
    const std::string convolution =
        "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { "
        "num_output: 4 kernel_size: 3" +
        fill +
        "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param { pool: "
        "MAX kernel_size: 2 stride: 2 } }\n";
    const std::string ip1 = "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data'";
    const size_t at = text.find(ip1);
    text.replace(at, ip1.size(),
                 convolution + "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool1'");
    return SolverConfig::parse(
        solver_text(text, "momentum: 0.9 test_interval: 0 " + kNoSnapshot + fields), "cnn solver");
  }
  static NetProblemOptions options() {
    NetProblemOptions o;
    o.seed = 5;
    o.workers = kWorkers;
    return o;
  }
};

struct Recorded {
  int worker = 0;
  double rate = 0;  // that the worker computed with, and is answered with
  double next_rate = 0;
  std::vector<float> gradient;
};

// Gradients of the net at what dana_zero sends, whoever comes first by a gamma clock.
std::vector<Recorded> record(NetProblem& problem, RuleRun& run, int updates, double& last_loss) {
  constexpr double kRate = 0.02;
  const StepClock clock(StepClock::Kind::kGamma, 1, 9);
  std::vector<double> at(kWorkers), rates(kWorkers, kRate);
  std::vector<int64_t> batch(kWorkers, 0);
  for (int w = 0; w < kWorkers; ++w) {
    at[w] = clock.seconds(w, 0);
    run.answer(w, kRate);
  }
  std::vector<Recorded> out;
  std::vector<float> buffers(problem.buffers());
  double losses = 0;
  for (int n = 0; n < updates; ++n) {
    const int w = static_cast<int>(std::ranges::min_element(at) - at.begin());
    Recorded r{w, rates[w], n + 1 < updates / 2 ? kRate : kRate / 10, {}};
    r.gradient.resize(problem.floats());
    const double loss =
        problem.gradient(0, run.at(w), buffers, w, kWorkers, batch[w]++, r.gradient);
    if (n >= updates - 100) losses += loss;
    run.push(w, r.gradient, r.rate);
    run.answer(w, rates[w] = r.next_rate);
    at[w] += clock.seconds(w, batch[w]);
    out.push_back(std::move(r));
  }
  last_loss = losses / 100;
  return out;
}

TEST_F(DanaNetTest, ZeroAndSlimAreOneUnderARecordedStream) {
  NetProblem problem(config("base_lr: 0.02 max_iter: 1"), options());
  std::vector<float> start(problem.floats()), buffers(problem.buffers());
  problem.start(start, buffers);
  RuleRunSetup setup;
  setup.workers = kWorkers;
  setup.segments = problem.segments();
  double last_loss = 0;
  RuleRun recorder("model: 'dana_zero'", setup, start);
  const std::vector<Recorded> stream = record(problem, recorder, 3000, last_loss);
  EXPECT_LT(last_loss, 0.3);  // of 1.1 at first: it is training that was recorded

  RuleRun zero("model: 'dana_zero'", setup, start), slim("model: 'dana_slim'", setup, start);
  for (int w = 0; w < kWorkers; ++w) {
    zero.answer(w, stream.front().rate);
    slim.answer(w, stream.front().rate);
  }
  double largest = 0, travelled = 0;
  for (const Recorded& r : stream) {
    zero.push(r.worker, r.gradient, r.rate);
    slim.push(r.worker, r.gradient, r.rate);
    const std::vector<float>& a = zero.answer(r.worker, r.next_rate);
    const std::vector<float>& b = slim.answer(r.worker, r.next_rate);
    for (size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
      travelled = std::max(travelled, std::abs(double{a[i]} - double{start[i]}));
    }
  }
  fmt::print("{} parameters: {:.2g} apart at most, {:.2g} from the start\n", start.size(), largest,
             travelled);
  EXPECT_LT(largest, 1e-5);
  EXPECT_GT(largest, 0);
  EXPECT_GT(travelled, 0.1);
  EXPECT_EQ(zero.theta, recorder.theta);  // the stream is that of its own trajectory
}

// 400 images whose labels cannot be learned: gradients stay as large as their noise, for all models
// alike, and what the gaps show is the models.
class DanaGapTest : public DanaNetTest {
 protected:
  void SetUp() override {
    DanaNetTest::SetUp();
    constexpr int kItems = 400, kPixels = 36;
    Rng rng(1, RngPurpose::kTest, 0);
    std::string pixels, labels;
    for (int i = 0; i < kItems; ++i) {
      labels += static_cast<char>(rng.below(3));
      for (int p = 0; p < kPixels; ++p) pixels += static_cast<char>(rng.below(256));
    }
    folder_.write("train-images", idx_bytes({kItems, 6, 6}, pixels));
    folder_.write("train-labels", idx_bytes({kItems}, labels));
  }
  VirtualResult run(const std::string& model, int pushes, SolverObserver* observer,
                    const std::string& sync = "push_weight: 1") const {
    VirtualSpec spec;
    spec.config = config(fmt::format("base_lr: 0.005 max_iter: {} sync_param {{ model: '{}' {} }}",
                                     pushes, model, sync));
    spec.cluster = ClusterProfile::load(
        folder_.write("c.prototxt",
                      "name: 'c' source: 'test' compute { clock: GAMMA mean: 1 } "
                      "network { preset: ideal } server { per_push_us: 0 }"),
        5);
    spec.workers = kWorkers;
    spec.end = pushes;
    spec.seed = 5;
    NetProblem problem(spec.config, options());
    return run_virtual(problem, spec, observer);
  }
};

double measured(const RoundRecord& round) {
  for (const auto& [name, value] : round.terms) {
    if (name == "measured_gap") return value;
  }
  return -1;
}

TEST_F(DanaGapTest, RoundsHaveTheirGap) {
  Recorder seen;
  const VirtualResult r = run("asgd", 200, &seen);
  ASSERT_EQ(seen.rounds.size(), 200U);
  double sum = 0;
  for (const RoundRecord& round : seen.rounds) sum += measured(round);
  EXPECT_NEAR(sum / 200, r.mean_gap, 1e-12);
  EXPECT_EQ(measured(seen.rounds[0]), 0);  // nobody has moved the weights yet
  EXPECT_GT(measured(seen.rounds[1]), 0);
  Recorder waits;
  run("bsp", 20, &waits, "");
  for (const RoundRecord& round : waits.rounds) EXPECT_EQ(measured(round), 0);
}

// ASGD < DANA < Multi-ASGD << NAG-ASGD, all at one rate. asgd has no momentum.
TEST_F(DanaGapTest, GapsAreInOrder) {
  std::map<std::string, double> gap;
  for (const char* model : {"asgd", "dana_zero", "multi_asgd", "nag_asgd"}) {
    const VirtualResult r = run(model, 4000, nullptr);
    EXPECT_FALSE(r.diverged);
    gap[model] = r.mean_gap;
    fmt::print("{}: gap {:.3g}\n", model, r.mean_gap);
  }
  EXPECT_LT(gap["asgd"], gap["dana_zero"]);
  EXPECT_LT(1.3 * gap["dana_zero"], gap["multi_asgd"]);
  EXPECT_LT(2 * gap["multi_asgd"], gap["nag_asgd"]);
}

}  // namespace
}  // namespace kinet
