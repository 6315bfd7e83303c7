// sapus: when a worker pushes, what its push weighs, and how its steps are bounded from below.
// ctest: labels=unit,core,smoke timeout=60
#include <cmath>
#include <utility>

#include "src/sync/sapus_bound.h"
#include "src/sync/sapus_steps.h"
#include "tests/sync_script.h"

namespace kinet {
namespace {

using Plans = SyncScript::Plans;

// A worker of two parameters at (10, 0), without momentum; steps are the gradients times the rate.
class Triggers : public ::testing::Test {
 protected:
  void begin(
      const SapusTriggers& triggers, int64_t least = 1,
      const std::function<double(int64_t)>& schedule = [](int64_t) { return 1.0; }) {
    rule_ = std::make_unique<SapusSteps>(triggers);
    RuleSetup setup;
    setup.segments = {{0, 2, 1, 1}};
    rule_->set_up(setup, 2);
    receive(least, schedule);
  }
  void receive(int64_t least, const std::function<double(int64_t)>& schedule,
               int64_t iteration = 0) {
    weights_ = {10, 0};
    number_ = 0;
    rule_->received(weights_, {iteration, least, schedule});
  }
  bool step(float x, float y) {
    std::vector<float> gradient{x, y};
    return rule_->step(weights_, gradient, 1, ++number_);
  }

  std::unique_ptr<SapusSteps> rule_;
  std::vector<float> weights_;
  int64_t number_ = 0;
};

TEST_F(Triggers, AnUpdateThatIsSignificant) {
  begin({.delta = 0.1, .coherence = 0, .most = 100});
  EXPECT_FALSE(step(0, 0.4F));
  EXPECT_NEAR(rule_->significance(), 0.04, 1e-7);
  EXPECT_FALSE(step(0, 0.4F));
  EXPECT_TRUE(step(0, 0.4F));
  EXPECT_NEAR(rule_->significance(), 0.12, 1e-7);
  EXPECT_NEAR(rule_->coherence(), 1, 1e-6);
  std::vector<float> out(2);
  rule_->push(weights_, weights_, out);
  EXPECT_NEAR(out[1], 1.2, 1e-6);
}

TEST_F(Triggers, NotBeforeTheServersWantIt) {
  begin({.delta = 0.1, .coherence = 0, .most = 100}, 5);
  for (int h = 1; h <= 4; ++h) EXPECT_FALSE(step(0, 2)) << h;
  EXPECT_TRUE(step(0, 2));
}

// Updates get smaller with the rate; what they are worth does not.
TEST_F(Triggers, TheThresholdFollowsTheRate) {
  const auto schedule = [](int64_t iteration) { return iteration < 10 ? 1.0 : 0.1; };
  begin({.delta = 0.1, .coherence = 0, .most = 100}, 1, schedule);
  EXPECT_FALSE(step(0, 0.9F));
  receive(1, schedule, 10);
  EXPECT_FALSE(step(0, 0.9F));
  EXPECT_TRUE(step(0, 0.9F));  // |u| = 0.18, threshold 0.1
}

TEST_F(Triggers, AnUpdateThatGoesNowhere) {
  begin({.delta = 1, .coherence = 0.3, .most = 100});
  EXPECT_FALSE(step(0, 1));
  EXPECT_FALSE(step(1, 0));  // sqrt(2) / 2
  EXPECT_NEAR(rule_->coherence(), std::sqrt(0.5), 1e-6);
  EXPECT_FALSE(step(0, -1));  // 1 / 3
  EXPECT_TRUE(step(-1, 0));   // back
  EXPECT_NEAR(rule_->coherence(), 0, 1e-6);
}

TEST_F(Triggers, NeverMoreThanTheMostButForTheServers) {
  begin({.delta = 1e9, .coherence = 0, .most = 3});
  EXPECT_EQ(rule_->most_steps(), 3);
  EXPECT_FALSE(step(0, 1));
  EXPECT_FALSE(step(0, 1));
  EXPECT_TRUE(step(0, 1));
  receive(5, [](int64_t) { return 1.0; });
  for (int h = 1; h <= 4; ++h) EXPECT_FALSE(step(0, 1)) << h;
  EXPECT_TRUE(step(0, 1));
}

// --- the bound ----------------------------------------------------------------------------

SapusBound sixteen(const SapusBudget& budget, double service) {
  SapusBound bound(budget, 16, 431080);
  for (int w = 0; w < 16; ++w) bound.pushed(w, 4, 4 * 0.005);
  bound.served(service);
  return bound;
}

TEST(SapusBound, OfTheLink) {
  // 8 * 16 * 431080 / (0.9 * 125e6 * 0.005) = 98.1
  const SapusBound bound = sixteen({0, 125e6, 0, 0}, 1e-3);
  const SapusBound::Bounds b = bound.bounds(16);
  EXPECT_NEAR(b.pace, 3200, 1e-6);
  EXPECT_NEAR(b.link, 98.095, 1e-3);
  EXPECT_EQ(b.servers, 1);
  EXPECT_EQ(b.workers, 1);
  EXPECT_EQ(b.steps, 99);
}

TEST(SapusBound, OfTheServersAndTheWorkers) {
  const SapusBound servers = sixteen({0.2, 0, 0, 0}, 1e-3);
  EXPECT_EQ(servers.bounds(16).steps, 16);  // 3200 pushes of 1 ms in a fifth of the time
  const SapusBound workers = sixteen({0, 0, 1.25e9, 0.2}, 1e-3);
  // (8 * 431080 / 1.25e9 + 1e-3) / (0.2 * 0.005)
  EXPECT_NEAR(workers.bounds(16).workers, 3.759, 1e-3);
  EXPECT_EQ(workers.bounds(16).steps, 4);
  EXPECT_EQ(sixteen({0, 0, 0, 0}, 1).bounds(16).steps, 1);  // nothing is bounded
}

TEST(SapusBound, FollowsWhatIsMeasured) {
  SapusBound bound({0.5, 0, 0, 0}, 4, 100);
  EXPECT_EQ(bound.bounds(4).steps, 1);  // nothing is known
  bound.pushed(0, 1, 0.01);
  bound.served(0.1);
  EXPECT_NEAR(bound.bounds(4).servers, 80, 1e-9);  // the others are taken for the same
  bound.served(0.2);
  EXPECT_NEAR(bound.bounds(4).servers, 96, 1e-9);  // 0.8 * 0.1 + 0.2 * 0.2
  bound.pushed(1, 1, 0.02);
  EXPECT_NEAR(bound.bounds(2).servers, 0.12 * 150 / 0.5, 1e-9);
  bound.forget(0);
  EXPECT_NEAR(bound.bounds(1).servers, 0.12 * 50 / 0.5, 1e-9);
  bound.pushed(1, 1, 0);  // a clock that stood still says nothing
  bound.served(std::nan(""));
  EXPECT_NEAR(bound.bounds(1).servers, 0.12 * 50 / 0.5, 1e-9);
  EXPECT_EQ(SapusBound({0, 1e6, 0, 0, 64}, 4, 100).bounds(4).steps, 64);  // a budget holds at once
  SapusBound again({0.5, 0, 0, 0}, 4, 100);
  again.restore(bound.state());
  EXPECT_EQ(again.bounds(1).steps, bound.bounds(1).steps);
}

// --- the server ---------------------------------------------------------------------------

TEST(SapusModel, APushThatIsBetterThanTheOthersWeighsMore) {
  SyncScript s("model: 'sapus' sapus_loss_scale: 0.5 sapus_staleness: 0", 2);
  s.start();
  s.loss = 1;
  EXPECT_EQ(s.push(0), (Plans{"difference 0.0*0.5 ->0"}));  // nobody to compare with
  s.loss = 0.9;                                             // exp(0.1 / 0.5)
  EXPECT_EQ(s.push(1), (Plans{fmt::format("difference 1.0*{:.4g}~1 ->1", 0.5 * std::exp(0.2))}));
  double mean = 0.95 + 0.05 * std::exp(0.2);  // of the weights, which the next is divided by
  const auto expected = [&](const std::string& push, double weight) {
    const double w = 0.5 * weight / std::exchange(mean, 0.95 * mean + 0.05 * weight);
    return Plans{fmt::format("difference {}*{:.4g}~1 ->{}", push, w, push[0])};
  };
  s.loss = 1.08;  // against 0.9
  EXPECT_EQ(s.push(0), expected("0.1", std::exp(-0.4)));
  s.loss = 100;
  EXPECT_EQ(s.push(1), expected("1.1", 0.2));  // at least
  s.loss = 0.001;
  EXPECT_EQ(s.push(0), expected("0.2", 1.5));  // at most
}

// While losses fall, the newest push has the smallest; yet the pushes of a round are an iteration.
TEST(SapusModel, WeightsAreOneOnAverage) {
  SyncScript s("model: 'sapus'", 4);
  s.start();
  for (int i = 0; i < 400; ++i) {
    s.loss *= 0.99;
    s.push(i % 4);
  }
  EXPECT_GT(s.applied.back().terms[1].second, 1.05);  // the weight by loss
  EXPECT_NEAR(s.iteration, 100, 3);
}

TEST(SapusModel, LateIsMoreThanARoundOfAll) {
  SyncScript s("model: 'sapus' sapus_loss_scale: 0 sapus_staleness: 0.5 push_weight: 1", 2);
  s.start();
  for (int i = 0; i < 2; ++i) s.push(0);
  EXPECT_EQ(s.push(1), (Plans{"difference 1.0*1~2 ->1"}));
  for (int i = 0; i < 8; ++i) s.push(0);
  EXPECT_EQ(s.push(1), (Plans{"difference 1.1*0.5~8 ->1"}));  // 3 rounds: 1 / sqrt(1 + 3)
}

TEST(SapusModel, TheWindowForgetsTheDead) {
  SyncScript s("model: 'sapus' sapus_staleness: 0", 3);
  s.start();
  s.loss = 1, s.push(0);
  s.loss = 9, s.push(1);
  s.alive(1, false);
  s.loss = 1;
  // The mean of the others is 1; that of the weights so far 0.95 + 0.05 * 0.2.
  EXPECT_EQ(s.push(2), (Plans{"difference 2.0*0.5208~2 ->2"}));
  s.alive(1, true);
  EXPECT_TRUE(s.computing(1));
}

// The bound reaches the workers with their answers.
TEST(SapusModel, StepsFollowTheMeasuredService) {
  SyncScript s("model: 'sapus' sapus_server_share: 0.25 sapus_exchange_share: 0", 2);
  s.service = 1;
  s.start();
  EXPECT_EQ(s.model().local_steps(), 1);
  s.push(0);
  EXPECT_EQ(s.model().local_steps(), 8);  // two workers, a step a second each, a quarter
  s.seconds = 8;
  s.push(1);
  EXPECT_EQ(s.model().local_steps(), 8);
  SyncScript link("model: 'sapus' sapus_link_budget: 0.8 sapus_server_share: 0", 2, 0.9, "SGD",
                  50000000);
  link.start();
  EXPECT_EQ(link.model().local_steps(), 64);
  link.seconds = 64;
  link.push(0);
  EXPECT_EQ(link.model().local_steps(), 9);  // 2 * 400 MB a second into 90 MB
}

TEST(SapusModel, RefusesWhatCannotBe) {
  const auto error = [](const std::string& fields) -> std::string {
    try {
      SyncScript s("model: 'sapus' " + fields, 2);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error("sapus_delta: -1").find("sapus_delta"), std::string::npos);
  EXPECT_NE(error("sapus_weight_min: 2").find("sapus_weight_max"), std::string::npos);
  EXPECT_NE(error("sapus_most_steps: 0").find("at least 1"), std::string::npos);
  EXPECT_EQ(error(""), "");
}

}  // namespace
}  // namespace kinet
