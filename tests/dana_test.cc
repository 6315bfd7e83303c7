// What holds of the rules of the DANA family beside their equations (dana_equations_test.cc):
// weights, segments, decay, one worker, lost workers, resumed runs, and what is refused.
// ctest: labels=unit,core timeout=60
#include <gtest/gtest.h>

#include "src/base/rng.h"
#include "src/optim/optimizer.h"
#include "tests/rule_run.h"
#include "tests/sync_script.h"

namespace kinet {
namespace {

using Vector = std::vector<double>;

constexpr int kWorkers = 3;
constexpr size_t kFloats = 4;
const Vector kStart{1, -2, 0.5, 3};

std::vector<float> floats(const Vector& v) { return {v.begin(), v.end()}; }

void expect_near(const std::vector<float>& got, const Vector& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

// Without momentum correction the earlier gradients keep the rates they came with.
TEST(DanaFamily, WithoutCorrectionGradientsKeepTheirRates) {
  for (const std::string model : {"nag_asgd", "dana_zero", "multi_asgd"}) {
    SCOPED_TRACE(model);
    RuleRun run("model: '" + model + "'", {}, {0});
    run.answer(0, 1);
    run.push(0, {1}, 1);
    EXPECT_FLOAT_EQ(run.theta[0], -1);
    run.push(0, {1}, 0.1);
    EXPECT_FLOAT_EQ(run.theta[0], -1 - (0.9F + 0.1F));
    RuleRun corrected("model: '" + model + "' momentum_correction: true", {}, {0});
    corrected.answer(0, 1);
    corrected.push(0, {1}, 1);
    corrected.push(0, {1}, 0);  // a rate of zero moves nothing new, and is not a rate to scale by
    EXPECT_FLOAT_EQ(corrected.theta[0], -1 - 0.9F);
    corrected.push(0, {1}, 0.1);
    EXPECT_FLOAT_EQ(corrected.theta[0], -1.9F - (0.081F + 0.1F));
  }
}

// The weight of a push and lr_mult multiply the rate; decay is of theta; what lies between segments
// is left alone.
TEST(DanaFamily, WeightsSegmentsAndDecay) {
  RuleRunSetup setup;
  setup.weight_decay = 0.5F;
  setup.segments = {{0, 2, 1, 1}, {3, 1, 2, 0}};
  for (const std::string model : {"asgd", "nag_asgd", "multi_asgd", "lwp", "dc_asgd", "dana_zero",
                                  "dana_slim", "dana_dc", "staleness_aware", "gap_aware"}) {
    SCOPED_TRACE(model);
    for (const Regularization kind : {Regularization::kL2, Regularization::kL1}) {
      setup.regularization = kind;
      RuleRun run("model: '" + model + "'", setup, {1, -2, 7, 3});
      run.answer(0, 0.1);
      run.push(0, {1, 1, 1, 1}, 0.1, 0.25);
      const double l2 = kind == Regularization::kL2 ? 2 : 1;
      // DANA-Slim's weights are ahead by the momentum.
      const double ahead = model == "dana_slim" ? 1.9 : 1;
      expect_near(
          run.theta,
          {1 - ahead * 0.025 * 1.5, -2 - ahead * 0.025 * (1 - 0.5 * l2), 7, 3 - ahead * 0.05},
          1e-6);
      EXPECT_EQ(run.answer(0, 0.1)[2], 7);
    }
  }
}

// With compensation the decay comes after it: it is no part of g g.
TEST(DanaFamily, DecayComesAfterCompensation) {
  for (const std::string model : {"dc_asgd", "dana_dc"}) {
    SCOPED_TRACE(model);
    RuleRunSetup setup;
    setup.workers = 2;
    setup.momentum = 0;
    setup.weight_decay = 0.5F;
    RuleRun run("model: '" + model + "' dc_lambda: 10", setup, {1});
    run.answer(0, 0.1), run.answer(1, 0.1);
    run.push(0, {2}, 0.1);
    const double first = 1 - 0.1 * (2 + 0.5);
    EXPECT_NEAR(run.theta[0], first, 1e-6);
    run.push(1, {2}, 0.1);
    EXPECT_NEAR(run.theta[0], first - 0.1 * (2 + 10 * 4 * (first - 1) + 0.5 * first), 1e-6);
  }
}

std::vector<float> gradient(int number) {
  Rng rng(12, RngPurpose::kTest, static_cast<uint64_t>(number));
  std::vector<float> g;
  for (size_t i = 0; i < kFloats; ++i) g.push_back(rng.gaussian());
  return g;
}

// One worker: look-ahead is Nesterov's rule, whose weights are those that workers are sent; no
// look-ahead is momentum.
TEST(DanaFamily, OneWorkerIsTheSolversRule) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"model: 'dana_zero'", "Nesterov"},
      {"model: 'dana_slim'", "Nesterov"},
      {"model: 'nag_asgd'", "Nesterov"},
      {"model: 'lwp' lwp_damped: true", "Nesterov"},
      {"model: 'multi_asgd'", "SGD"},
      {"model: 'dc_asgd'", "SGD"},
      {"model: 'staleness_aware'", "SGD"},
      {"model: 'gap_aware'", "SGD"},
      {"model: 'dana_dc' dc_lambda: 0", "Nesterov"}};
  for (const auto& [sync, type] : cases) {
    SCOPED_TRACE(sync);
    RuleRun run(sync, {}, floats(kStart));
    OptimizerSettings settings;
    settings.momentum = 0.9F;
    const auto rule = make_optimizer(type, settings);
    std::vector<float> weights = floats(kStart), history(kFloats, 0.0F);
    const std::vector<ParameterSegment> all{{0, kFloats, 1, 1}};
    for (int n = 0; n < 50; ++n) {
      const double rate = n < 25 ? 0.05 : 0.01;
      expect_near(run.answer(0, rate), {weights.begin(), weights.end()}, 1e-5);
      std::vector<float> g = gradient(n);
      UpdateStep step;
      step.learning_rate = rate;
      rule->update(all, step, {weights, g, history});
      run.push(0, gradient(n), rate);
    }
  }
}

// A lost worker takes its momentum out of what others are sent; the weights stay where they are,
// and its successor begins without momentum.
TEST(DanaFamily, ALostWorkerLeavesTheLookAhead) {
  for (const std::string model : {"dana_zero", "dana_dc"}) {
    SCOPED_TRACE(model);
    RuleRunSetup setup;
    setup.workers = 2;
    RuleRun run("model: '" + model + "'", setup, {0});
    run.answer(0, 1), run.answer(1, 1);
    run.push(0, {1}, 1), run.push(1, {0}, 1);
    const float theta = run.theta[0];
    EXPECT_FLOAT_EQ(run.answer(1, 1)[0], theta - 0.9F);
    run.forget(0);
    EXPECT_EQ(run.theta[0], theta);
    EXPECT_FLOAT_EQ(run.answer(1, 1)[0], theta);
    run.answer(0, 1);
    run.push(0, {2}, 1);
    EXPECT_FLOAT_EQ(run.theta[0], theta - 2);  // nothing of the old momentum
    EXPECT_FLOAT_EQ(run.answer(0, 1)[0], theta - 2 - 1.8F);
  }
}

// Who forgets first, the rule or whoever keeps the momenta, makes no difference.
TEST(DanaFamily, TheMomentumMayBeGoneBeforeTheRuleKnows) {
  RuleRunSetup setup;
  setup.workers = 2;
  RuleRun run("model: 'dana_zero'", setup, {0});
  run.answer(0, 1), run.answer(1, 1);
  run.push(0, {1}, 1), run.push(1, {3}, 1);
  run.owns.erase(0);
  run.forget(0);
  EXPECT_FLOAT_EQ(run.answer(1, 1)[0], run.theta[0] - 0.9F * 3);
}

// History and own momenta are all that a run needs to go on with.
TEST(DanaFamily, GoesOnFromASnapshot) {
  for (const std::string model :
       {"nag_asgd", "multi_asgd", "lwp", "dc_asgd", "staleness_aware", "dana_zero", "dana_dc"}) {
    SCOPED_TRACE(model);
    RuleRunSetup setup;
    setup.workers = kWorkers;
    const std::string sync = "model: '" + model + "'";
    RuleRun through(sync, setup, floats(kStart)), halves(sync, setup, floats(kStart));
    for (int n = 0; n < 80; ++n) {
      if (n == 0 || n == 40) {  // all workers are answered where a run goes on
        for (int w = 0; w < kWorkers; ++w) through.answer(w, 0.02);
        if (n == 40) halves.begin();
        for (int w = 0; w < kWorkers; ++w) halves.answer(w, 0.02);
      }
      for (RuleRun* run : {&through, &halves}) {
        run->push(n * 7 % kWorkers, gradient(n), 0.02, 1, 2);
        run->answer(n * 7 % kWorkers, 0.02);
      }
      expect_near(halves.theta, {through.theta.begin(), through.theta.end()}, 1e-5);
      expect_near(halves.at(n * 7 % kWorkers),
                  {through.at(n * 7 % kWorkers).begin(), through.at(n * 7 % kWorkers).end()}, 1e-5);
    }
  }
}

// A gradient that is used after its worker was lost is compensated by what the worker was sent.
TEST(DanaFamily, AGradientOutlivesItsWorker) {
  RuleRunSetup setup;
  setup.workers = 2;
  setup.momentum = 0;
  RuleRun run("model: 'dc_asgd' dc_lambda: 1", setup, {1});
  run.answer(0, 0.1), run.answer(1, 0.1);
  run.push(1, {1}, 0.1);
  run.forget(0);
  run.push(0, {2}, 0.1);
  EXPECT_NEAR(run.theta[0], 0.9 - 0.1 * (2 + 4 * -0.1), 1e-6);
}

// Models whose pushes are applied one by one: whose rule it is, and what a push weighs.
TEST(EachPushModels, AreAppliedAtOnceByTheirRules) {
  for (const std::string model : {"asgd", "nag_asgd", "multi_asgd", "lwp", "dc_asgd", "dana_zero",
                                  "dana_dc", "staleness_aware", "gap_aware", "yellowfin"}) {
    SyncScript s("model: '" + model + "'", 4);
    s.start();
    EXPECT_EQ(s.push(2), (SyncScript::Plans{"rule 2.0*0.25 ->2"})) << model;
    EXPECT_EQ(s.push(0), (SyncScript::Plans{"rule 0.0*0.25~1 ->0"})) << model;
    EXPECT_NE(s.model().make_server_rule(), nullptr);
    EXPECT_EQ(s.model().make_worker_rule(), nullptr);
  }
  SyncScript slim("model: 'dana_slim'", 4);
  slim.start();
  EXPECT_EQ(slim.push(2), (SyncScript::Plans{"difference 2.0*0.25 ->2"}));
  EXPECT_NE(slim.model().make_worker_rule(), nullptr);
}

TEST(EachPushModels, AWeightOfOneIsAnIteration) {
  for (const std::string model : {"asp", "ssp", "dana_zero", "dana_slim"}) {
    SyncScript s("push_weight: 1 model: '" + model + "'", 4);
    s.start();
    EXPECT_NE(s.push(2).at(0).find("2.0*1 ->2"), std::string::npos) << model;
    s.push(1);
    EXPECT_DOUBLE_EQ(s.iteration, 2) << model;
  }
}

std::string refusal(const std::string& sync, const std::string& type = "SGD") {
  RuleRunSetup setup;
  setup.workers = 2;
  setup.solver_type = type;
  try {
    const RuleRun run(sync, setup, {0});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(DanaFamily, RefusesWhatItCannotDo) {
  EXPECT_NE(refusal("model: 'dana_zero'", "Adam").find("type SGD and Nesterov, not Adam"),
            std::string::npos);
  EXPECT_EQ(refusal("model: 'dana_zero'", "Nesterov"), "");
  EXPECT_NE(refusal("model: 'dc_asgd' dc_decay: 1").find("dc_decay"), std::string::npos);
  EXPECT_NE(refusal("model: 'dana_dc' dc_lambda: -2").find("dc_lambda"), std::string::npos);
  EXPECT_NE(refusal("model: 'gap_aware' gap_max_rate: -1").find("gap_max_rate"), std::string::npos);
  EXPECT_NE(refusal("model: 'lwp' lwp_lag: 2000000").find("lwp_lag"), std::string::npos);
  EXPECT_NE(refusal("model: 'yellowfin' yf_beta: 1").find("yf_beta"), std::string::npos);
  EXPECT_NE(refusal("model: 'yellowfin' yf_window: 0").find("yf_window"), std::string::npos);
  EXPECT_NE(refusal("model: 'yellowfin' servers: 2").find("servers: 1"), std::string::npos);
  EXPECT_NE(refusal("model: 'asgd' push_weight: 2").find("push_weight"), std::string::npos);
}

}  // namespace
}  // namespace kinet
