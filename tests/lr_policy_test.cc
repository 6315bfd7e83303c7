// Learning-rate policies against the golden rates, and the cases people met: edited files, unsorted
// steps, rates below zero.
// ctest: labels=unit,core,smoke
#include "src/optim/lr_policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "src/solver/solver.h"

namespace kinet {
namespace {

using Json = nlohmann::json;

struct Read {
  LrPolicy policy;
  std::vector<std::string> errors;
};

Read read(const std::string& text) {
  Diagnostics diagnostics;
  const ParamNode root = parse_prototxt(text, "s.prototxt", diagnostics);
  Read out;
  out.policy = read_lr_policy(Params(&root, &SolverConfig::fields()), diagnostics);
  out.errors = diagnostics.errors();
  return out;
}

double rate(const std::string& text, int64_t iteration) {
  const Read r = read(text);
  EXPECT_TRUE(r.errors.empty()) << r.errors[0];
  return learning_rate(r.policy, iteration);
}

std::string text_of(const Json& solver) {
  std::string text;
  for (const auto& [key, value] : solver.items()) text += key + ": " + value.dump() + "\n";
  return text;
}

TEST(LrPolicy, GoldenRates) {
  std::ifstream file(KINET_SOURCE_DIR "/tests/golden/reference.json");
  const Json cases = Json::parse(file)["lr_policies"];
  ASSERT_EQ(cases.size(), 7u);
  for (const Json& c : cases) {
    for (size_t i = 0; i < c["iters"].size(); ++i) {
      const double expected = c["rates"][i];
      EXPECT_NEAR(rate(text_of(c["solver"]), c["iters"][i]), expected, 1e-9 * expected)
          << c["solver"] << " at " << c["iters"][i];
    }
  }
}

TEST(LrPolicy, MultistepIsAFunctionOfFileAndIteration) {
  const std::string file = "base_lr: .1 gamma: .1 lr_policy: 'multistep' ";
  const std::string five_ten = file + "stepvalue: 5 stepvalue: 10";
  EXPECT_NEAR(rate(five_ten, 4), .1, 1e-12);
  EXPECT_NEAR(rate(five_ten, 5), .01, 1e-12);
  EXPECT_NEAR(rate(five_ten, 9), .01, 1e-12);
  EXPECT_NEAR(rate(five_ten, 10), .001, 1e-12);
  // The file is edited between two runs: right at once.
  EXPECT_NEAR(rate(file + "stepvalue: [8, 10]", 7), .1, 1e-12);
  EXPECT_NEAR(rate(file + "stepvalue: [8, 10]", 8), .01, 1e-12);
  EXPECT_NEAR(rate(file + "stepvalue: [10, 20, 30]", 50), 1e-4, 1e-12);
}

TEST(LrPolicy, UnsortedStepsAreAnError) {
  const Read r = read("base_lr: .1 gamma: .1 lr_policy: 'multistep' stepvalue: 10\nstepvalue: 5");
  ASSERT_EQ(r.errors.size(), 1u);
  EXPECT_NE(r.errors[0].find("5 follows 10"), std::string::npos) << r.errors[0];
}

TEST(LrPolicy, PolyAndCosineEndAtZero) {
  for (const std::string policy : {"'poly' power: .5", "'poly' power: 3", "'cosine'"}) {
    const std::string file = "base_lr: .1 max_iter: 100 lr_policy: " + policy;
    EXPECT_NEAR(rate(file, 0), .1, 1e-12);
    EXPECT_GT(rate(file, 99), 0);
    EXPECT_EQ(rate(file, 100), 0);
    EXPECT_EQ(rate(file, 101), 0);
    EXPECT_EQ(rate(file, 100000), 0);
  }
  EXPECT_NEAR(rate("base_lr: .1 max_iter: 100 lr_policy: 'cosine'", 25),
              .05 * (1 + std::cos(std::numbers::pi / 4)), 1e-12);
  EXPECT_EQ(rate("base_lr: .1 max_iter: 0 lr_policy: 'poly' power: 1", 0), 0);
}

TEST(LrPolicy, FormulasAtTheStartAndFarOut) {
  EXPECT_NEAR(rate("base_lr: .01 lr_policy: 'inv' gamma: 1e-4 power: .75", 0), .01, 1e-15);
  EXPECT_NEAR(rate("base_lr: .01 lr_policy: 'inv' gamma: 1e-4 power: .75", 1000),
              .01 * std::pow(1.1, -.75), 1e-12);
  EXPECT_NEAR(rate("base_lr: .01 lr_policy: 'exp' gamma: .999", 0), .01, 1e-15);
  EXPECT_NEAR(rate("base_lr: .01 lr_policy: 'exp' gamma: .999", 1000), .01 * std::pow(.999, 1000),
              1e-12);
  const std::string sigmoid = "base_lr: .01 lr_policy: 'sigmoid' gamma: -.01 stepsize: 500";
  EXPECT_NEAR(rate(sigmoid, 0), .01 / (1 + std::exp(-5.0)), 1e-12);
  EXPECT_NEAR(rate(sigmoid, 1000), .01 / (1 + std::exp(5.0)), 1e-12);
}

TEST(LrPolicy, WarmUpRisesInEvenSteps) {
  const std::string fixed = "base_lr: .4 warmup_iter: 3 ";
  EXPECT_NEAR(rate(fixed, 0), .1, 1e-12);
  EXPECT_NEAR(rate(fixed, 1), .2, 1e-12);
  EXPECT_NEAR(rate(fixed, 2), .3, 1e-12);
  EXPECT_NEAR(rate(fixed, 3), .4, 1e-12);
  EXPECT_NEAR(rate(fixed + "warmup_start_lr: .01", 0), .01, 1e-12);
  EXPECT_NEAR(rate(fixed + "warmup_start_lr: .01", 1), .14, 1e-12);
  EXPECT_NEAR(rate(fixed + "warmup_start_lr: 0", 0), 0, 1e-12);
  // Any policy, and the policy itself counts from the start.
  const std::string step = "base_lr: .4 warmup_iter: 4 lr_policy: 'step' gamma: .5 stepsize: 4 ";
  EXPECT_NEAR(rate(step + "warmup_start_lr: 0", 2), .2, 1e-12);
  EXPECT_NEAR(rate(step, 4), .2, 1e-12);
}

TEST(LrPolicy, SaysWhichFieldIsMissing) {
  const Read r = read("base_lr: .1 lr_policy: 'step'");
  ASSERT_EQ(r.errors.size(), 2u);
  EXPECT_NE(r.errors[0].find("'gamma'"), std::string::npos) << r.errors[0];
  EXPECT_NE(r.errors[1].find("'stepsize'"), std::string::npos) << r.errors[1];
  EXPECT_EQ(read("base_lr: .1 lr_policy: 'step' gamma: .1 stepsize: 0").errors.size(), 1u);
  EXPECT_EQ(read("base_lr: -.1").errors.size(), 1u);
}

}  // namespace
}  // namespace kinet
