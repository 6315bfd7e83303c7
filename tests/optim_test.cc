// Update rules against the golden runs (float64, made by an independent program), against formulas
// written out here, and for what they promise about threads and untouched memory.
// ctest: labels=unit,core,smoke
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/optim/optimizer.h"

namespace kinet {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const Json json = [] {
    std::ifstream file(KINET_SOURCE_DIR "/tests/golden/reference.json");
    return Json::parse(file)["solvers"];
  }();
  return json;
}

std::vector<float> numbers(const Json& array) { return array["data"].get<std::vector<float>>(); }

// Least squares: e = X w + b - y, loss = sum e^2 / (2 n); parameters w (6 floats), then b, which
// begins at float 8 so that there is padding between them.
struct LeastSquares {
  static constexpr int kInputs = 6, kItems = 4, kBias = 8, kFloats = 12;
  std::vector<float> x = numbers(golden()["problem"]["data"]);
  std::vector<float> y = numbers(golden()["problem"]["targets"]);
  std::vector<float> weights = std::vector<float>(kFloats), gradients = std::vector<float>(kFloats);

  LeastSquares() {
    const auto w = numbers(golden()["problem"]["weights"]);
    std::copy(w.begin(), w.end(), weights.begin());
    weights[kBias] = numbers(golden()["problem"]["bias"])[0];
  }

  // Adds the gradient of mini-batch k (modulo 8).
  void add_gradient(int64_t k) {
    for (int i = 0; i < kItems; ++i) {
      const auto row = static_cast<size_t>((k % 8) * kItems + i);
      double e = weights[kBias] - y[row];
      for (int j = 0; j < kInputs; ++j) e += double{x[row * kInputs + j]} * weights[j];
      for (int j = 0; j < kInputs; ++j) {
        gradients[j] += static_cast<float>(e * x[row * kInputs + j] / kItems);
      }
      gradients[kBias] += static_cast<float>(e / kItems);
    }
  }
};

OptimizerSettings settings_of(const Json& json) {
  OptimizerSettings s;
  s.momentum = json.value("mom", 0.0F);
  s.weight_decay = json.value("wd", 0.0F);
  s.rms_decay = json.value("rms", 0.95F);
  s.delta = json.value("delta", 1e-8F);
  s.momentum2 = json.value("mom2", 0.999F);
  s.regularization = json.value("reg", "L2") == "L1" ? Regularization::kL1 : Regularization::kL2;
  return s;
}

std::vector<ParameterSegment> segments_of(const Json& json) {
  std::vector<ParameterSegment> segments{{0, LeastSquares::kInputs}, {LeastSquares::kBias, 1}};
  for (size_t i = 0; i < segments.size(); ++i) {
    if (json.contains("lr_mult")) segments[i].lr_mult = json["lr_mult"][i];
    if (json.contains("decay_mult")) segments[i].decay_mult = json["decay_mult"][i];
  }
  return segments;
}

void expect_near(const std::vector<float>& expected, const float* actual) {
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 2e-5 * std::max(1.0F, std::abs(expected[i])))
        << "element " << i;
  }
}

class GoldenRun : public ::testing::TestWithParam<int> {};

TEST_P(GoldenRun, WeightsAfterEveryIteration) {
  const Json& run = golden()["runs"][GetParam()];
  const Json& s = run["settings"];
  SCOPED_TRACE(run["name"].get<std::string>());
  const auto optimizer = make_optimizer(run["type"], settings_of(s));
  LeastSquares problem;
  std::vector<float> history(problem.weights.size() * optimizer->histories());
  const int iter_size = s.value("iter_size", 1);
  for (int64_t it = 0; it < s["iters"].get<int64_t>(); ++it) {
    std::fill(problem.gradients.begin(), problem.gradients.end(), 0.0F);
    for (int micro = 0; micro < iter_size; ++micro) problem.add_gradient(it * iter_size + micro);
    UpdateStep step;
    step.step = it + 1;
    step.learning_rate = s["lr_per_iter"][it];
    step.gradient_scale = 1.0F / static_cast<float>(iter_size);
    const double norm = gradient_norm(problem.gradients, 1) / iter_size;
    const double clip = s.value("clip", -1.0);
    if (clip > 0 && norm > clip) step.gradient_scale *= static_cast<float>(clip / norm);
    optimizer->update(segments_of(s), step, {problem.weights, problem.gradients, history});
    SCOPED_TRACE("iteration " + std::to_string(it));
    expect_near(numbers(run["params_after_iter"][it][0]), problem.weights.data());
    expect_near(numbers(run["params_after_iter"][it][1]), &problem.weights[LeastSquares::kBias]);
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, GoldenRun,
                         ::testing::Range(0, static_cast<int>(golden()["runs"].size())),
                         [](const auto& info) {
                           return golden()["runs"][info.param]["name"].template get<std::string>();
                         });

TEST(Optimizer, EveryRegisteredTypeIsTested) {
  EXPECT_EQ(OptimizerRegistry::instance().names(),
            (std::vector<std::string>{"AdaDelta", "AdaGrad", "Adam", "AdamW", "Nesterov", "RMSProp",
                                      "SGD"}));
}

TEST(Optimizer, UnknownTypeNamesTheNearest) {
  try {
    make_optimizer("adam", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'Adam'"), std::string::npos)
        << error.what();
  }
}

// The decay multiplies the weights alone, so with zero gradients they shrink by 1 - eta lambda.
TEST(AdamW, DecayIsDecoupled) {
  OptimizerSettings s;
  s.momentum = 0.9F;
  s.weight_decay = 0.1F;
  const auto optimizer = make_optimizer("AdamW", s);
  std::vector<float> w{2, -4}, g{0, 0}, h(4);
  const std::vector<ParameterSegment> segments{{0, 1, 1, 1}, {1, 1, 2, 0.5F}};
  optimizer->update(segments, {1, 0.5, 1, 1}, {w, g, h});
  EXPECT_FLOAT_EQ(w[0], 2 * (1 - 0.5F * 0.1F));
  EXPECT_FLOAT_EQ(w[1], -4 * (1 - 0.5F * 2 * 0.1F * 0.5F));
  for (const float moment : h) EXPECT_EQ(moment, 0);
}

// Against the equation in double, with gradient and both regularisations.
TEST(AdamW, FollowsItsEquation) {
  for (const Regularization kind : {Regularization::kL2, Regularization::kL1}) {
    OptimizerSettings s;
    s.momentum = 0.9F;
    s.weight_decay = 0.05F;
    s.regularization = kind;
    const auto optimizer = make_optimizer("AdamW", s);
    std::vector<float> w{1.5F}, g{0}, h(2);
    double x = 1.5, m = 0, v = 0;
    for (int t = 1; t <= 6; ++t) {
      const double gradient = std::sin(t) + 0.3 * x;
      g[0] = static_cast<float>(gradient);
      m = 0.9 * m + 0.1 * gradient;
      v = 0.999 * v + 0.001 * gradient * gradient;
      const double c = std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
      const double decay = 0.05 * (kind == Regularization::kL2 ? x : (x > 0) - (x < 0));
      x -= 0.1 * (c * m / (std::sqrt(v) + 1e-8) + decay);
      optimizer->update(std::vector<ParameterSegment>{{0, 1}}, {t, 0.1, 1, 1}, {w, g, h});
      EXPECT_NEAR(w[0], x, 2e-5) << "t = " << t;
    }
  }
}

class EveryType : public ::testing::TestWithParam<std::string> {
 protected:
  // 200,003 weights in two segments with padding between; what update() makes of them.
  static std::vector<float> updated(int threads, float padding) {
    OptimizerSettings s;
    s.momentum = OptimizerRegistry::instance().find(GetParam())->uses_momentum ? 0.9F : 0;
    s.weight_decay = 0.01F;
    const auto optimizer = make_optimizer(GetParam(), s);
    const size_t n = 200020;
    std::vector<float> w(n, padding), g(n, padding), h(n * optimizer->histories());
    const std::vector<ParameterSegment> segments{
        {0, 120003, 1, 1}, {120016, 80000, 2, 0}, {200016, 3, 0, 1}};
    Rng rng(7);
    for (const ParameterSegment& segment : segments) {
      for (size_t i = 0; i < segment.count; ++i) w[segment.offset + i] = rng.gaussian();
    }
    for (int t = 1; t <= 3; ++t) {
      for (float& x : g) x = rng.gaussian();
      optimizer->update(segments, {t, 0.01, 0.5F, threads}, {w, g, h});
    }
    w.insert(w.end(), h.begin(), h.end());
    return w;
  }
};

TEST_P(EveryType, DoesNotDependOnThreads) { EXPECT_EQ(updated(1, 0), updated(3, 0)); }

TEST_P(EveryType, LeavesPaddingAndFrozenParametersAlone) {
  const std::vector<float> w = updated(2, 42);
  for (size_t i = 120003; i < 120016; ++i) EXPECT_EQ(w[i], 42);
  const std::vector<float> start = [] {
    Rng rng(7);
    std::vector<float> values(200006);
    for (float& x : values) x = rng.gaussian();
    return values;
  }();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(w[200016 + i], start[200003 + i]) << "lr_mult 0";
  EXPECT_NE(w[0], start[0]);
}

INSTANTIATE_TEST_SUITE_P(Types, EveryType,
                         ::testing::ValuesIn(OptimizerRegistry::instance().names()));

TEST(GradientNorm, SumsInDoubleAndSeesWhatIsNotFinite) {
  std::vector<float> g(100000, 1e20F);  // the squares overflow a float
  EXPECT_NEAR(gradient_norm(g, 1), 1e20 * std::sqrt(1e5), 1e16);
  EXPECT_EQ(gradient_norm(g, 1), gradient_norm(g, 4));
  g[77777] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(gradient_norm(g, 2)));
  g[77777] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(gradient_norm(g, 2)));
  EXPECT_EQ(gradient_norm({}, 2), 0);
}

}  // namespace
}  // namespace kinet
