// How the controller keeps the answers of the rules steady, within limits, and through snapshots.
// ctest: labels=unit,core,smoke timeout=60
#include "src/sync/k_controller.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/k_rule_cases.h"

namespace kinet {
namespace {

using namespace k_rule_cases;

// -------------------------------------------------------------------------------

TEST(KController, HalvesOrDoublesAtMost) {
  const std::unique_ptr<KController> controller = make("k_rule: 'norm' k_interval: 1");
  KInputs in;
  in.live = 32;
  in.noise_known = true;
  in.noise = 0.81 * 2;
  in.signal = 1;
  EXPECT_EQ(controller->start(32), 32);
  EXPECT_EQ(sequence(*controller, in, 6), (std::vector<int>{16, 8, 4, 2, 2, 2}));
  in.round = 6;
  in.noise *= 10;
  EXPECT_EQ(sequence(*controller, in, 5), (std::vector<int>{4, 8, 16, 20, 20}));
  in.round = 11;
  in.noise *= 1.05;  // asks for 21: less than a tenth more
  EXPECT_EQ(sequence(*controller, in, 2), (std::vector<int>{20, 20}));
}

// What nobody has chosen is found at once, and kept steady afterwards.
TEST(KController, FindsItsFirstKInOneStep) {
  KInputs in;
  in.live = 32;
  in.noise_known = true;
  in.noise = 0.81 * 2;
  in.signal = 1;
  EXPECT_EQ(sequence(*make("k_rule: 'norm'"), in, 3), (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(sequence(*make("k_rule: 'norm' k: 32"), in, 3), (std::vector<int>{16, 16, 16}));
  const std::unique_ptr<KController> controller = make("k_rule: 'norm'");
  in.round = 1;
  sequence(*controller, in, 200);
  EXPECT_EQ(controller->k(), 2);
  in.round = 201;
  in.noise *= 10;
  int before = 2;
  for (const int k : sequence(*controller, in, 200)) {
    EXPECT_LE(k, 2 * before);
    before = k;
  }
  EXPECT_EQ(before, 20);
}

TEST(KController, DecidesEveryIntervalOnly) {
  const std::unique_ptr<KController> controller = make("k_rule: 'norm' k_interval: 3 k: 8");
  KInputs in;
  in.live = 8;
  in.noise_known = true;
  in.noise = 0.81;
  in.signal = 1;
  EXPECT_EQ(sequence(*controller, in, 8), (std::vector<int>{4, 4, 4, 2, 2, 2, 1, 1}));
}

TEST(KController, ADeathLowersKAtOnce) {
  const std::unique_ptr<KController> controller = make("k_rule: 'norm' k_interval: 1000");
  KInputs in;
  in.live = 4;
  EXPECT_EQ(controller->start(4), 4);
  EXPECT_EQ(controller->next(in).k, 4);
  in.live = 3;  // in the same round
  const KChoice choice = controller->next(in);
  EXPECT_EQ(choice.k, 3);
  EXPECT_TRUE(choice.decided);
  in.live = 1;
  EXPECT_EQ(controller->next(in).k, 1);
}

TEST(KController, KeepsToItsLimits) {
  KInputs in;
  in.live = 16;
  in.noise_known = true;
  in.signal = 1;
  in.noise = 1e-3;
  EXPECT_EQ(settled("k_rule: 'norm' k_min: 4", in), 4);
  in.noise = 1e3;
  EXPECT_EQ(settled("k_rule: 'norm' k_max: 10", in), 10);
  in.live = 3;
  EXPECT_EQ(settled("k_rule: 'norm' k_min: 4", in), 3);
  EXPECT_NE(error_of("k_min: 5 k_max: 4"), "");
}

TEST(KController, SeveralRulesTheLargestWins) {
  KInputs in = typical(32, nullptr);
  in.noise = 0.81 * 7;
  EXPECT_EQ(settled("k_rule: 'norm' k_rule: 'gap'", in), 16);
  in.noise = 0.81 * 24;
  EXPECT_EQ(settled("k_rule: 'norm' k_rule: 'gap'", in), 24);
}

TEST(KController, GoesOnFromASnapshot) {
  const std::string text =
      "k_rule: 'sign' k_rule: 'momentum' k_rule: 'goodput_lag' k_interval: 2 k_sign_threshold: 3";
  const ArrivalModel machines = cluster(Clock::kMachines, 16);
  const std::unique_ptr<KController> one = make(text), two = make(text);
  KInputs in = typical(16, &machines);
  in.product_known = true;
  const auto step = [&](KController& controller, int64_t round) {
    in.round = round;
    in.product = round % 5 == 0 ? 1 : -1;
    in.momentum_norm = 0.02 + 0.01 * static_cast<double>(round % 7);
    return controller.next(in).k;
  };
  one->start(16);
  for (int round = 0; round < 33; ++round) step(*one, round);
  two->restore(one->state());
  EXPECT_EQ(one->k(), two->k());
  for (int round = 33; round < 90; ++round) EXPECT_EQ(step(*one, round), step(*two, round));
  EXPECT_THROW(make("k_rule: 'norm'")->restore(one->state()), Error);
  EXPECT_THROW(two->restore({1, 2}), Error);
}

TEST(KController, AnUnknownRuleIsNamedWithItsPlace) {
  const std::string error = error_of("k: 2\nk_rule: 'goodput_leg'");
  EXPECT_NE(error.find("s.prototxt:2"), std::string::npos) << error;
  EXPECT_NE(error.find("goodput_lag"), std::string::npos) << error;
  EXPECT_NE(error_of("k_theta: 0 k_rule: 'norm'"), "");
}

TEST(KController, NeverLeavesTheRangeWhateverTheInputs) {
  for (const std::string& rule : KRuleRegistry::instance().names()) {
    const std::unique_ptr<KController> controller = make("k_interval: 1 k_rule: '" + rule + "'");
    Rng rng(9);
    KInputs in;
    for (in.round = 0; in.round < 300; ++in.round) {
      in.live = 1 + static_cast<int>(rng.below(12));
      const ArrivalModel arrivals = cluster(Clock::kSlowDowns, static_cast<int>(rng.below(14)));
      in.arrivals = &arrivals;
      const auto wild = [&] {
        const uint64_t kind = rng.below(6);
        if (kind == 0) return 0.0;
        if (kind == 1) return std::nan("");
        if (kind == 2) return std::numeric_limits<double>::infinity();
        return std::exp(20.0 * rng.gaussian());
      };
      in.noise_known = rng.bernoulli(0.7F);
      in.noise = wild();
      in.signal = rng.bernoulli(0.2F) ? -wild() : wild();
      in.momentum = rng.uniform();
      in.momentum_norm = wild();
      in.step_norm = wild();
      in.weight_norm = wild();
      in.loss_first = wild();
      in.loss_now = wild();
      in.product_known = rng.bernoulli(0.5F);
      in.product = -wild();
      const int k = controller->next(in).k;
      ASSERT_GE(k, 1) << rule;
      ASSERT_LE(k, in.live) << rule;
    }
  }
}

}  // namespace
}  // namespace kinet
