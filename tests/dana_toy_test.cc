// The DANA family on a noisy quadratic with eight workers whose times are gamma distributed: which
// models stand which rates, how far the weights move under a gradient (the gap), and that the two
// forms of DANA are one.
// ctest: labels=unit,core timeout=120
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/rng.h"
#include "tests/rule_run.h"

namespace kinet {
namespace {

constexpr int kWorkers = 8;
constexpr size_t kFloats = 50;
constexpr float kNoise = 0.1F;

// Who pushes, in the order of arrival. A batch takes Gamma(100, 1/100), a sum of exponentials: a
// deviation of a tenth of its mean (the model of Ali et al. 2000 as DANA's authors use it).
std::vector<int> arrivals(int updates) {
  std::array<double, kWorkers> at{};
  std::vector<int> order;
  for (int n = 0; n < kWorkers + updates; ++n) {
    const int w = n < kWorkers ? n : static_cast<int>(std::ranges::min_element(at) - at.begin());
    if (n >= kWorkers) order.push_back(w);
    Rng rng(1, RngPurpose::kTest, static_cast<uint64_t>(n));
    for (int i = 0; i < 100; ++i) at[w] -= std::log1p(-rng.uniform()) / 100;
  }
  return order;
}

// f = 1/2 sum of a_i x_i^2, curvatures a_i from 0.1 to 5 in equal ratios.
float curvature(size_t i) {
  return 0.1F * std::pow(50.0F, static_cast<float>(i) / (kFloats - 1));
}

std::vector<float> gradient(const std::vector<float>& x, int number) {
  Rng rng(2, RngPurpose::kTest, static_cast<uint64_t>(number));
  std::vector<float> g(x.size());
  for (size_t i = 0; i < x.size(); ++i) g[i] = curvature(i) * x[i] + kNoise * rng.gaussian();
  return g;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

struct Outcome {
  bool stable = true;
  double gap = 0;  // mean over the pushes of |theta - what was sent| / sqrt(d)
};

Outcome play(const std::string& model, double rate, int updates) {
  RuleRunSetup setup;
  setup.workers = kWorkers;
  RuleRun run("model: '" + model + "'", setup, std::vector<float>(kFloats, 1.0F));
  for (int w = 0; w < kWorkers; ++w) run.answer(w, rate);
  Outcome out;
  int number = 0;
  for (const int w : arrivals(updates)) {
    out.gap += distance(run.theta, run.at(w)) / updates;
    run.push(w, gradient(run.at(w), number++), rate);
    run.answer(w, rate);
    out.stable = distance(run.theta, std::vector<float>(kFloats, 0.0F)) < 100;
    if (!out.stable) break;
  }
  return out;
}

// algorithms of section 2.7's table; there the spectrum was another one.
TEST(DanaToy, Prints) {
  for (const double rate : {0.002, 0.005, 0.01, 0.02, 0.04}) {
    for (const std::string model : {"asgd", "dana_zero", "dana_slim", "multi_asgd", "lwp", "nag_asgd"}) {
      const Outcome o = play(model, rate, 12000);
      fmt::print("{:6} {:12} {} {:.5f}\n", rate, model, o.stable ? "stable  " : "diverges", o.gap);
    }
  }
}

}  // namespace
}  // namespace kinet
