// The rules of the DANA family against their papers' equations, written out in double and with the
// learning rate outside of the momentum, where the papers have it.
// ctest: labels=unit,core timeout=60
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "src/base/rng.h"
#include "tests/rule_run.h"

namespace kinet {
namespace {

using Vector = std::vector<double>;

constexpr int kWorkers = 3;
constexpr size_t kFloats = 4;
constexpr double kMomentum = 0.9;

// What an equation has to go by. Vectors begin as zeros, of the worker or of all.
struct Terms {
  Vector theta;
  Vector v, average;                // of all
  std::vector<Vector> own, square;  // of each worker
  std::vector<Vector> sent;
  int updates = 0;
};

struct Event {
  int worker = 0, lag = 0;
  double eta = 0;
  Vector g;
};

struct Published {
  std::string sync;
  // Applies the event.
  std::function<void(Terms&, const Event&)> push;
  // What the worker is sent, where that is not theta. `eta`: of the last update.
  std::function<Vector(const Terms&, double eta)> answer;
};

Vector minus(const Vector& a, double factor, const Vector& b) {
  Vector out = a;
  for (size_t i = 0; i < a.size(); ++i) out[i] -= factor * b[i];
  return out;
}

// v = m v + g;  theta -= eta v
void momentum_step(Terms& t, Vector& v, const Vector& g, double eta) {
  for (size_t i = 0; i < g.size(); ++i) {
    v[i] = kMomentum * v[i] + g[i];
    t.theta[i] -= eta * v[i];
  }
}

Vector compensated(const Terms& t, const Event& e, double lambda) {
  Vector g = e.g;
  for (size_t i = 0; i < g.size(); ++i) {
    g[i] += lambda * g[i] * g[i] * (t.theta[i] - t.sent[e.worker][i]);
  }
  return g;
}

Vector sum(const std::vector<Vector>& vectors) {
  Vector out(kFloats, 0.0);
  for (const Vector& v : vectors) out = minus(out, -1, v);
  return out;
}

void adaptive(Terms& t, const Event& e) {
  Vector g = e.g;
  Vector& square = t.square[e.worker];
  for (size_t i = 0; i < g.size(); ++i) {
    square[i] = 0.95 * square[i] + 0.05 * g[i] * g[i];
    const double lambda = 2 / std::sqrt(square[i] + 1e-10);
    g[i] += lambda * g[i] * g[i] * (t.theta[i] - t.sent[e.worker][i]);
  }
  momentum_step(t, t.v, g, e.eta);
}

constexpr double kLargestRate = 0.05;

void gap_aware(Terms& t, const Event& e) {
  Vector g = e.g;
  const double known = 1 - std::pow(0.999, t.updates);
  for (size_t i = 0; i < g.size(); ++i) {
    const double average = t.updates > 0 ? t.average[i] / known : 0;
    const double step = kLargestRate * (std::sqrt(average) + 1e-8);
    g[i] /= 1 + std::abs(t.theta[i] - t.sent[e.worker][i]) / step;
  }
  momentum_step(t, t.v, g, e.eta);
  for (size_t i = 0; i < g.size(); ++i) {
    t.average[i] = 0.999 * t.average[i] + 0.001 * t.v[i] * t.v[i];
  }
}

// Learning rate outside of the momentum.
const std::vector<Published>& published() {
  static const std::vector<Published> all{
      {"model: 'asgd'", [](Terms& t, const Event& e) { t.theta = minus(t.theta, e.eta, e.g); }, {}},
      {"model: 'nag_asgd'", [](Terms& t, const Event& e) { momentum_step(t, t.v, e.g, e.eta); },
       [](const Terms& t, double eta) { return minus(t.theta, eta * kMomentum, t.v); }},
      {"model: 'multi_asgd'",
       [](Terms& t, const Event& e) { momentum_step(t, t.own[e.worker], e.g, e.eta); },
       {}},
      {"model: 'lwp'", [](Terms& t, const Event& e) { momentum_step(t, t.v, e.g, e.eta); },
       [](const Terms& t, double eta) { return minus(t.theta, kWorkers * eta, t.v); }},
      {"model: 'lwp' lwp_lag: 5 lwp_damped: true",
       [](Terms& t, const Event& e) { momentum_step(t, t.v, e.g, e.eta); },
       [](const Terms& t, double eta) {
         const double a = (kMomentum - std::pow(kMomentum, 6)) / (1 - kMomentum);
         return minus(t.theta, a * eta, t.v);
       }},
      {"model: 'dc_asgd'",
       [](Terms& t, const Event& e) { momentum_step(t, t.v, compensated(t, e, 0.04), e.eta); },
       {}},
      {"model: 'dc_asgd' dc_lambda: 3",
       [](Terms& t, const Event& e) { momentum_step(t, t.v, compensated(t, e, 3), e.eta); },
       {}},
      {"model: 'dc_asgd' dc_adaptive: true", adaptive, {}},
      {"model: 'staleness_aware'",
       [](Terms& t, const Event& e) {
         Vector g = e.g;
         for (double& x : g) x /= std::max(1, e.lag);
         momentum_step(t, t.v, g, e.eta);
       },
       {}},
      {"model: 'gap_aware'", gap_aware, {}},
      {"model: 'dana_zero'",
       [](Terms& t, const Event& e) { momentum_step(t, t.own[e.worker], e.g, e.eta); },
       [](const Terms& t, double eta) { return minus(t.theta, eta * kMomentum, sum(t.own)); }},
      {"model: 'dana_dc'",
       [](Terms& t, const Event& e) {
         momentum_step(t, t.own[e.worker], compensated(t, e, 2), e.eta);
       },
       [](const Terms& t, double eta) { return minus(t.theta, eta * kMomentum, sum(t.own)); }}};
  return all;
}

// Gradients out of the blue, of workers in no order.
struct Stream {
  Event next(int number, double rate) {
    Rng rng(11, RngPurpose::kTest, static_cast<uint64_t>(number));
    Event e;
    e.worker = static_cast<int>(rng.below(kWorkers));
    e.eta = rate;
    for (size_t i = 0; i < kFloats; ++i) e.g.push_back(static_cast<double>(rng.gaussian()));
    e.lag = number - version[e.worker];
    version[e.worker] = number + 1;
    return e;
  }
  std::vector<int> version = std::vector<int>(kWorkers, 0);  // when each was answered
};

std::vector<float> floats(const Vector& v) { return {v.begin(), v.end()}; }

void expect_near(const std::vector<float>& got, const Vector& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

Terms begin(const Vector& theta) {
  const Vector zeros(theta.size(), 0.0);
  const std::vector<Vector> of_each(kWorkers, zeros);
  return {theta, zeros, zeros, of_each, of_each, std::vector<Vector>(kWorkers, theta), 0};
}

const Vector kStart{1, -2, 0.5, 3};

// 60 pushes; `rate` may change where the rule corrects its momentum for it.
void play(const Published& p, const std::string& more, const std::function<double(int)>& rate,
          double weight = 1) {
  SCOPED_TRACE(p.sync + more);
  RuleRunSetup setup;
  setup.workers = kWorkers;
  setup.momentum = static_cast<float>(kMomentum);
  RuleRun run(p.sync + more, setup, floats(kStart));
  Terms terms = begin(kStart);
  Stream stream;
  for (int w = 0; w < kWorkers; ++w) expect_near(run.answer(w, rate(0)), kStart, 0);
  for (int n = 0; n < 60; ++n) {
    const Event e = stream.next(n, rate(n));
    p.push(terms, e);
    ++terms.updates;
    run.push(e.worker, floats(e.g), e.eta / weight, weight, e.lag);
    terms.sent[e.worker] = p.answer ? p.answer(terms, e.eta) : terms.theta;
    expect_near(run.theta, terms.theta, 2e-5);
    expect_near(run.answer(e.worker, e.eta), terms.sent[e.worker], 2e-5);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(DanaFamily, RulesAreThePublishedEquations) {
  for (const Published& p : published()) {
    for (const double weight : {1.0, 0.25}) {  // only its product with the rate counts
      play(
          p, "", [](int) { return kLargestRate; }, weight);
    }
  }
}

// With momentum correction the rate may change, and the rate outside of the momentum is still what
// happens. DANA's sum holds momenta of several rates then, see the test below.
TEST(DanaFamily, MomentumCorrectionIsTheRateOutside) {
  for (const Published& p : published()) {
    if (p.sync.find("dana") != std::string::npos) continue;
    play(p, " momentum_correction: true", [](int n) { return n < 30 ? kLargestRate : 0.007; });
  }
}

}  // namespace
}  // namespace kinet
