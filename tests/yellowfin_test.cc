// The yellowfin model against the equations of Zhang and Mitliagkas, with sums over all gradients
// in place of running means, and the cubic solved by halving. ctest: labels=unit,core timeout=60
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/base/rng.h"
#include "tests/rule_run.h"

namespace kinet {
namespace {

using Vector = std::vector<double>;

constexpr double kEpsilon = 1e-6;

// Mean of what came, the newest with weight 1, the one before with weight b, ...
double mean_of(const Vector& values, double b) {
  double sum = 0, weights = 0, weight = 1;
  for (size_t i = values.size(); i-- > 0; weight *= b) {
    sum += weight * values[i];
    weights += weight;
  }
  return sum / weights;
}

// x in (0, 1) with p x = (1 - x)^3.
double root_of(double p) {
  double low = 0, high = 1;
  for (int i = 0; i < 200; ++i) {
    const double x = (low + high) / 2;
    (p * x < std::pow(1 - x, 3) ? low : high) = x;
  }
  return (low + high) / 2;
}

struct Tuned {
  double rate = 0, momentum = 0;
};

// Everything anew out of the list of gradients.
Tuned tuned(const std::vector<Vector>& gradients, double b, size_t window) {
  Vector squares, norms, ratios, least, largest;
  for (const Vector& g : gradients) {
    double h = 0;
    for (const double x : g) h += x * x;
    squares.push_back(h);
    norms.push_back(std::sqrt(h));
    // eps stands beside the running mean with its bias, as in the authors' program.
    const double bias = 1 - std::pow(b, static_cast<double>(squares.size()));
    ratios.push_back(mean_of(norms, b) * bias / (mean_of(squares, b) * bias + kEpsilon));
    const auto begin = squares.end() - static_cast<long>(std::min(window, squares.size()));
    least.push_back(std::log(*std::min_element(begin, squares.end()) + kEpsilon));
    largest.push_back(std::log(*std::max_element(begin, squares.end()) + kEpsilon));
  }
  const double h_min = std::exp(mean_of(least, b)), h_max = std::exp(mean_of(largest, b));
  double variance = mean_of(squares, b);
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    Vector of_one;
    for (const Vector& g : gradients) of_one.push_back(g[i]);
    variance -= std::pow(mean_of(of_one, b), 2);
  }
  const double p = std::pow((mean_of(ratios, b) + kEpsilon) * (h_min + kEpsilon), 2) / 2 /
                   std::max(variance, kEpsilon);
  const double r = std::sqrt(h_max / h_min);
  Tuned out;
  out.momentum = std::max(std::pow(root_of(p), 2), std::pow((r - 1) / (r + 1), 2));
  const auto t = static_cast<double>(gradients.size());
  out.rate = std::pow(1 - std::sqrt(out.momentum), 2) / (h_min + kEpsilon) *
             std::min(1.0, t / (10.0 * static_cast<double>(window)));
  return out;
}

// A mean that falls, and noise.
Vector gradient(int number) {
  Rng rng(3, RngPurpose::kTest, static_cast<uint64_t>(number));
  Vector g;
  for (int i = 0; i < 3; ++i) {
    g.push_back(double{static_cast<float>(1.5 * std::exp(-number / 50.0) + 0.4 * i +
                                          0.5 * static_cast<double>(rng.gaussian()))});
  }
  return g;
}

void play(const std::string& more, double b, size_t window) {
  SCOPED_TRACE(more);
  RuleRunSetup setup;
  setup.workers = 2;
  RuleRun run("model: 'yellowfin' " + more, setup, {1, 2, 3});
  Vector theta{1, 2, 3}, v(3, 0.0);
  std::vector<Vector> all;
  for (int n = 0; n < 150; ++n) {
    // The schedule: up to 0.4, which is the rate as tuned, then a tenth of it.
    const double schedule = n < 20 ? 0.1 + 0.015 * n : n < 100 ? 0.4 : 0.04;
    all.push_back(gradient(n));
    const Tuned now = tuned(all, b, window);
    const double eta = 0.5 * now.rate * (n < 100 ? 1 : 0.1);
    for (size_t i = 0; i < 3; ++i) {
      v[i] = now.momentum * v[i] + eta * all.back()[i];
      theta[i] -= v[i];
    }
    EXPECT_EQ(run.answer(n % 2, schedule), run.theta);
    run.push(n % 2, {all.back().begin(), all.back().end()}, schedule, 0.5);
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_NEAR(run.theta[i], theta[i], 1e-4 * std::max(1.0, std::abs(theta[i]))) << n;
      ASSERT_NEAR(run.history[i], v[i], 1e-4 * std::max(0.1, std::abs(v[i]))) << n;
    }
  }
}

TEST(YellowFin, TunesByItsEquations) {
  play("", 0.999, 20);
  play("yf_beta: 0.9 yf_window: 5", 0.9, 5);
}

// It gets to the optimum of a noisy quadratic whatever rate the solver file has.
TEST(YellowFin, FindsTheOptimum) {
  RuleRun run("model: 'yellowfin' push_weight: 1", {}, std::vector<float>(10, 1.0F));
  for (int n = 0; n < 3000; ++n) {
    const std::vector<float>& x = run.answer(0, 1e3);
    std::vector<float> g(x.size());
    Rng rng(4, RngPurpose::kTest, static_cast<uint64_t>(n));
    for (size_t i = 0; i < x.size(); ++i) g[i] = x[i] + 0.3F * rng.gaussian();
    run.push(0, g, 1e3);
  }
  double sum = 0;
  for (const float x : run.theta) sum += x * x;
  EXPECT_LT(sum, 0.5);
}

}  // namespace
}  // namespace kinet
