// Models whose workers take steps of their own: how many, who meets the server when, and that every
// one of them finds the minimum of a quadratic.
// ctest: labels=unit,core,smoke timeout=60
#include <cmath>

#include "tests/rule_cluster.h"
#include "tests/sync_script.h"

namespace kinet {
namespace {

using Plans = SyncScript::Plans;

// Steps that the workers of the next round are told, after rounds at these rates.
std::vector<int64_t> steps_at(const std::string& fields, const std::vector<double>& rates) {
  SyncScript s(fields, 2);
  s.start();
  std::vector<int64_t> out;
  for (const double rate : rates) {
    s.rate = rate;
    s.push(0), s.push(1);
    out.push_back(s.model().local_steps());
  }
  return out;
}

TEST(PostLocalSgd, StepsBeginWithTheFirstDrop) {
  const std::string fields = "model: 'post_local_sgd' local_steps: 16";
  EXPECT_EQ(steps_at(fields, {0.1, 0.2, 0.3, 0.3, 0.03, 0.3}),
            (std::vector<int64_t>{1, 1, 1, 1, 16, 16}));
  EXPECT_EQ(steps_at(fields, {0.1, 0.098, 0.096, 0.094}), (std::vector<int64_t>{1, 1, 1, 16}));
}

TEST(PostLocalSgd, ARoundIsAverages) {
  SyncScript s("model: 'post_local_sgd' local_steps: 4", 2);
  s.start();
  s.push(0);
  EXPECT_EQ(s.push(1), (Plans{"difference 0.0*0.5 difference 1.0*0.5 ->0 1"}));
  EXPECT_DOUBLE_EQ(s.iteration, 1);
  s.rate /= 10;
  s.push(1), s.push(0);
  EXPECT_DOUBLE_EQ(s.iteration, 2);
  s.push(1), s.push(0);
  EXPECT_DOUBLE_EQ(s.iteration, 6);
  EXPECT_EQ(s.applied.back().terms.front(), (std::pair<std::string, double>("local_steps", 4)));
}

// H = max(H_base, floor((alpha / eta)^2))
TEST(Qsr, StepsGrowWithTheSquareOfTheRate) {
  EXPECT_EQ(steps_at("model: 'qsr' local_steps: 4 qsr_alpha: 0.2", {0.1, 0.1, 0.08, 0.05, 0.02}),
            (std::vector<int64_t>{4, 4, 6, 16, 100}));
  EXPECT_EQ(steps_at("model: 'qsr' local_steps: 4 qsr_alpha: 0.2 local_steps_max: 50",
                     {0.1, 0.1, 0.08, 0.05, 0.02}),
            (std::vector<int64_t>{4, 4, 6, 16, 50}));
  // alpha = 2 * 0.1
  EXPECT_EQ(steps_at("model: 'qsr' local_steps: 4", {0.1, 0.1, 0.08, 0.05, 0.02}),
            (std::vector<int64_t>{4, 4, 6, 16, 100}));
}

TEST(Qsr, WarmUpIsNoSmallRate) {
  EXPECT_EQ(steps_at("model: 'qsr' local_steps: 2 qsr_alpha: 0.4", {0.01, 0.05, 0.2, 0.2, 0.1}),
            (std::vector<int64_t>{2, 2, 2, 4, 16}));
}

// Rounds of two workers; the clock goes on by a second a round, F is made to be what is pushed.
class AdaCommTest : public ::testing::Test {
 protected:
  AdaCommTest() : s_("model: 'ada_comm' local_steps: 16 ada_interval: 50", 2) { s_.start(); }
  int64_t after(double loss, double rate) {  // of a look at the loss
    s_.loss = loss;
    s_.rate = rate;
    for (int i = 0; i < 200; ++i) s_.push(0), s_.push(1);  // the running mean settles
    s_.now += 50;
    s_.push(0), s_.push(1);
    return s_.model().local_steps();
  }
  SyncScript s_;
};

TEST_F(AdaCommTest, StepsFallWithTheLossAndRiseWhenTheRateDrops) {
  EXPECT_EQ(s_.model().local_steps(), 16);
  EXPECT_EQ(after(4, 0.1), 8);        // F = F0: it has not fallen
  EXPECT_EQ(after(1, 0.1), 4);        // 16 sqrt(1/4) = 8 is no less than 8
  EXPECT_EQ(after(0.16, 0.1), 2);     // ceil(3.2) = 4 is no less than 4
  EXPECT_EQ(after(0.16, 0.001), 32);  // 16 sqrt(100 * 0.04)
  EXPECT_EQ(after(0.04, 0.001), 16);
  EXPECT_EQ(after(0.01, 0.001), 8);
  for (int i = 0; i < 8; ++i) after(0.01, 0.001);
  EXPECT_EQ(s_.model().local_steps(), 1);
}

TEST_F(AdaCommTest, GoesOnFromItsState) {
  after(4, 0.1);
  SyncScript again("model: 'ada_comm' local_steps: 16 ada_interval: 50", 2);
  again.model().restore(s_.model().state());
  EXPECT_EQ(again.model().local_steps(), s_.model().local_steps());
  EXPECT_EQ(again.model().state(), s_.model().state());
}

// --- elastic averaging: who meets the center when --------------------------------------------

TEST(RoundRobin, WorkersInTurn) {
  SyncScript s("model: 'easgd' easgd_period: 2", 3);
  EXPECT_EQ(s.start(), (Plans{"->0 1 2"}));
  EXPECT_EQ(s.push(2), Plans{});
  EXPECT_EQ(s.push(1), Plans{});
  EXPECT_EQ(s.push(0),
            (Plans{"rule 0.0*0.3333 ->0", "rule 1.0*0.3333~1 ->1", "rule 2.0*0.3333~2 ->2"}));
  EXPECT_DOUBLE_EQ(s.iteration, 2);
  EXPECT_EQ(s.push(1), Plans{});
  EXPECT_EQ(s.idle(0), (Plans{"->0"}));  // not finite: once more, and its turn waits
  EXPECT_EQ(s.push(0), (Plans{"rule 0.2*0.3333 ->0", "rule 1.1*0.3333~2 ->1"}));
}

TEST(RoundRobin, TurnsOfTheDeadArePassedOver) {
  SyncScript s("model: 'easgd'", 3);
  s.start();
  s.push(1);
  EXPECT_EQ(s.alive(0, false), (Plans{"rule 1.0*0.5 ->1"}));
  s.push(1);
  EXPECT_EQ(s.alive(0, true), (Plans{"->0"}));
  EXPECT_EQ(s.push(2), (Plans{"rule 2.0*0.3333~1 ->2"}));
  EXPECT_EQ(s.push(2), Plans{});
  EXPECT_EQ(s.push(0).size(), 3u);
  // What the dead have pushed has its turn.
  s.push(2);
  s.alive(2, false);
  s.push(0);
  EXPECT_EQ(s.push(1), (Plans{"rule 1.2*0.5~2 ->1", "rule 2.2*0.5~2 "}));
  EXPECT_EQ(s.push(1), Plans{});
}

TEST(AsyncElastic, OneAtATimeAsTheyCome) {
  for (const std::string model : {"async_easgd", "async_measgd", "hogwild_easgd"}) {
    SyncScript s("model: '" + model + "' easgd_period: 4", 2);
    s.start();
    EXPECT_EQ(s.push(1), (Plans{"rule 1.0*0.5 ->1"}));
    EXPECT_EQ(s.push(1), (Plans{"rule 1.1*0.5 ->1"}));
    EXPECT_EQ(s.push(0), (Plans{"rule 0.0*0.5~2 ->0"}));
    EXPECT_DOUBLE_EQ(s.iteration, 6);
  }
}

TEST(SyncElastic, AllAtOnceAndNothingIsDropped) {
  SyncScript s("model: 'sync_easgd'", 3);
  s.start();
  s.push(2), s.push(0);
  EXPECT_EQ(s.push(1), (Plans{"rule 2.0*0.3333 rule 0.0*0.3333 rule 1.0*0.3333 ->2 0 1"}));
  s.push(1), s.push(0);
  EXPECT_EQ(s.alive(2, false), (Plans{"rule 1.1*0.5 rule 0.1*0.5 ->1 0"}));
}

TEST(ElasticFields, RefuseWhatCannotBe) {
  const auto error = [](const std::string& fields) -> std::string {
    try {
      SyncScript s("model: 'sync_easgd' " + fields, 2);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error("easgd_beta: 2.5").find("easgd_beta"), std::string::npos);
  EXPECT_NE(error("easgd_beta: 0").find("easgd_beta"), std::string::npos);
  EXPECT_NE(error("easgd_rho: -1").find("easgd_rho"), std::string::npos);
  EXPECT_NE(error("easgd_period: 0").find("easgd_period"), std::string::npos);
  EXPECT_NE(error("easgd_level: 4").find("1, 2 or 3"), std::string::npos);
}

// --- all of them ------------------------------------------------------------------------------

// Noise in the gradients, workers that come in any order: f falls to what the noise allows.
TEST(EveryLocalModel, FindsTheMinimumOfAQuadratic) {
  for (const std::string& fields : std::vector<std::string>{
           "model: 'local_sgd' local_steps: 4", "model: 'post_local_sgd' local_steps: 8",
           "model: 'ada_comm'", "model: 'qsr' local_steps: 2", "model: 'easgd'",
           "model: 'async_easgd'", "model: 'async_easgd' easgd_period: 4", "model: 'async_measgd'",
           "model: 'hogwild_easgd'", "model: 'sync_easgd'", "model: 'sync_easgd' easgd_rho: 2",
           "model: 'async_sgd'", "model: 'async_msgd' push_weight: 0.25", "model: 'hogwild_sgd'",
           "model: 'sapus'", "model: 'sapus' sapus_most_steps: 8"}) {
    SCOPED_TRACE(fields);
    const bool momentum = fields.find("async_m") != std::string::npos;
    RuleCluster c(fields, 4, Quadratic::of(20, 0.3, 0.05), momentum ? 0.9F : 0);
    const double rate = momentum ? 0.02 : 0.1;
    c.schedule = [rate](int64_t iteration) { return iteration < 300 ? rate : rate / 10; };
    c.start();
    const double first = c.value();
    while (c.iteration < 600) c.run(1, static_cast<uint64_t>(c.pushes));
    EXPECT_LT(c.value(), first / 1000);
  }
}

// A death and a successor: the center goes on, the successor begins at it.
TEST(EveryLocalModel, OutlivesAWorker) {
  for (const std::string& fields : std::vector<std::string>{
           "model: 'local_sgd' local_steps: 4", "model: 'easgd'", "model: 'async_easgd'",
           "model: 'sync_easgd'", "model: 'hogwild_sgd'", "model: 'sapus'"}) {
    SCOPED_TRACE(fields);
    RuleCluster c(fields, 3, Quadratic::of(20, 0.3));
    c.start();
    c.run(30, 1);
    c.die(1);
    c.run(30, 2);
    c.join(1);
    c.run(300, 3);
    EXPECT_TRUE(c.computing(0) || c.computing(1) || c.computing(2));
    EXPECT_LT(c.value(), 0.01);
  }
}

}  // namespace
}  // namespace kinet
