// ctest: labels=unit,core timeout=60
//
// The quadratic: its spectrum, gradients against differences of its losses, the size of its noise,
// that everything follows from the seed; and objectives in files.
#include "src/sim/quadratic_problem.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/data_files.h"

namespace kinet {
namespace {

QuadraticSettings small() {
  QuadraticSettings s;
  s.dimension = 6;
  s.condition = 16;
  s.curvature = 4;
  return s;
}

std::vector<float> start_of(const Problem& problem) {
  std::vector<float> weights(problem.floats());
  problem.start(weights, {});
  return weights;
}

std::vector<float> gradient_of(Problem& problem, std::span<const float> at, int worker,
                               int64_t batch) {
  std::vector<float> g(problem.floats());
  problem.gradient(0, at, {}, worker, 1, batch, g);
  return g;
}

TEST(Quadratic, HasTheSpectrumThatWasAskedFor) {
  QuadraticSettings s = small();
  s.dimension = 5;
  const std::vector<float> logarithmic = QuadraticProblem(s, 1).eigenvalues();
  for (int i = 0; i < 5; ++i) EXPECT_FLOAT_EQ(logarithmic[i], 4 * std::pow(0.5F, i));
  s.log_spectrum = false;
  const std::vector<float> linear = QuadraticProblem(s, 1).eigenvalues();
  for (int i = 0; i < 5; ++i) EXPECT_FLOAT_EQ(linear[i], 4 - 0.9375F * i);
  s.dimension = 1;
  EXPECT_FLOAT_EQ(QuadraticProblem(s, 1).eigenvalues().front(), 4);
}

TEST(Quadratic, GradientsAreThoseOfTheLosses) {
  QuadraticProblem problem(small(), 3);
  const std::vector<float> x = start_of(problem), g = gradient_of(problem, x, 2, 7);
  for (size_t i = 0; i < x.size(); ++i) {
    constexpr float kStep = 0.01F;
    std::vector<float> up = x, down = x;
    up[i] += kStep;
    down[i] -= kStep;
    const double difference = problem.loss(0, up, {}, 2, 1, 7) - problem.loss(0, down, {}, 2, 1, 7);
    EXPECT_NEAR(difference / (up[i] - down[i]), g[i], 1e-4);
  }
  std::vector<float> out(x.size());
  EXPECT_EQ(problem.gradient(0, x, {}, 2, 1, 7, out), problem.loss(0, x, {}, 2, 1, 7));
}

TEST(Quadratic, NoiseHasItsSizeAndNoMean) {
  QuadraticSettings s = small();
  s.noise = 0.5;
  s.batch_size = 4;  // a standard deviation of 0.25
  QuadraticProblem problem(s, 5);
  const std::vector<float> x = start_of(problem);
  std::vector<double> sum(6, 0);
  double squares = 0;
  constexpr int kBatches = 20'000;
  for (int b = 0; b < kBatches; ++b) {
    const std::vector<float> g = gradient_of(problem, x, b % 3, b / 3);
    for (int i = 0; i < 6; ++i) {
      const double noise = g[i] - problem.eigenvalues()[i] * (x[i] - problem.minimum()[i]);
      sum[i] += noise;
      squares += noise * noise;
    }
  }
  for (const double total : sum) EXPECT_NEAR(total / kBatches, 0, 0.01);
  EXPECT_NEAR(std::sqrt(squares / (6.0 * kBatches)), 0.25, 0.003);
}

TEST(Quadratic, FollowsFromTheSeed) {
  QuadraticProblem a(small(), 3), b(small(), 3), other(small(), 4);
  const std::vector<float> x = start_of(a);
  EXPECT_EQ(x, start_of(b));
  EXPECT_NE(x, start_of(other));
  EXPECT_EQ(gradient_of(a, x, 5, 9), gradient_of(b, x, 5, 9));
  EXPECT_NE(gradient_of(a, x, 5, 9), gradient_of(a, x, 6, 9));
  EXPECT_NE(gradient_of(a, x, 5, 9), gradient_of(a, x, 5, 10));
}

TEST(Quadratic, DescentReachesTheMinimum) {
  QuadraticSettings s = small();
  s.noise = 0;
  QuadraticProblem problem(s, 3);
  std::vector<float> x = start_of(problem);
  EXPECT_GT(problem.test(0, x, {}).loss, 0.1);
  for (int step = 0; step < 300; ++step) {
    const std::vector<float> g = gradient_of(problem, x, 0, step);
    for (size_t i = 0; i < x.size(); ++i) x[i] -= 0.25F * g[i];
  }
  EXPECT_LT(problem.test(0, x, {}).loss, 1e-10);
  EXPECT_NEAR(problem.loss(0, x, {}, 0, 1, 0), 1, 1e-6);  // floor
  EXPECT_EQ(problem.test(0, x, {}).accuracy, -1);
}

TEST(Quadratic, SegmentsCoverIt) {
  QuadraticSettings s = small();
  s.segments = 4;
  size_t next = 0;
  const std::vector<ParameterSegment> segments = QuadraticProblem(s, 1).segments();
  ASSERT_EQ(segments.size(), 4U);
  for (const ParameterSegment& segment : segments) {
    EXPECT_EQ(segment.offset, next);
    EXPECT_GT(segment.count, 0U);
    next += segment.count;
  }
  EXPECT_EQ(next, 6U);
}

TEST(Objective, IsReadFromAFile) {
  const TemporaryFolder folder;
  const std::string path = folder.write("o.prototxt", R"(objective { quadratic {
    dimension: 4 condition: 8 spectrum: LINEAR noise: 0 start: 2 batch_size: 3 } })");
  const auto problem = load_objective(path, 1);
  EXPECT_EQ(problem->floats(), 4U);
  EXPECT_EQ(problem->batch_size(), 3);
  EXPECT_EQ(problem->buffers(), 0U);
  EXPECT_CONTAINS(problem->describe(), "quadratic of 4 parameters, condition 8 (linear spectrum)");
  EXPECT_EQ(load_objective(path, 1, {"objective.quadratic.dimension=9"})->floats(), 9U);
}

TEST(Objective, AllFaultsAreToldAtOnce) {
  const TemporaryFolder folder;
  const auto fault = [&](const std::string& text) {
    return message_of([&] { load_objective(folder.write("o.prototxt", text), 1); });
  };
  const std::string values = fault(
      "objective { quadratic { dimension: 0 condition: 0.5\n"
      "  noise: -1 segments: 3 } }");
  for (const char* part :
       {"dimension 0", "condition 0.5", "o.prototxt:2:10: noise -1", "segments 3"}) {
    EXPECT_CONTAINS(values, part);
  }
  EXPECT_CONTAINS(fault("objective { quadratik { } }"), "did you mean 'quadratic'?");
  EXPECT_CONTAINS(fault(""), "no objective");
}

}  // namespace
}  // namespace kinet
