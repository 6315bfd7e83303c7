// Elastic averaging: the equations of src/sync/elastic.h in double precision, the symmetry of an
// exchange, and its limits. Where it is stable: elastic_stability_test.cc.
// ctest: labels=unit,core,smoke timeout=60
#include <cmath>

#include "src/sync/elastic.h"
#include "tests/rule_cluster.h"

namespace kinet {
namespace {

using Vec = std::vector<double>;

double norm(const std::vector<float>& v) { return gradient_norm(std::span<const float>(v), 1); }

void expect_near(const std::vector<float>& got, const Vec& expected, double tolerance = 1e-6) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << i;
}

// x_i and W of the head, with the solver's v where there is momentum.
struct Elastic {
  const Quadratic f;
  double momentum = 0;
  std::vector<Vec> x, v;
  Vec center;

  Elastic(const Quadratic& quadratic, int workers) : f(quadratic) {
    center.assign(f.minimum.size(), 0);
    x.assign(static_cast<size_t>(workers), center);
    v = x;
  }
  static double lr_mult(size_t i) { return i < 3 ? 1 : 2; }
  double update(size_t w, size_t i, double eta) {
    const double g = f.curvature[i] * (x[w][i] - f.minimum[i]);
    return v[w][i] = momentum * v[w][i] + eta * lr_mult(i) * g;
  }
  void local(double eta) {
    for (size_t w = 0; w < x.size(); ++w) {
      for (size_t i = 0; i < center.size(); ++i) x[w][i] -= update(w, i, eta);
    }
  }
  // The workers `who` meet the center at once.
  void exchange(const std::vector<size_t>& who, double eta, double a) {
    const Vec c = center;
    for (const size_t w : who) {
      for (size_t i = 0; i < center.size(); ++i) {
        const double e = a * (x[w][i] - c[i]);
        center[i] += e;
        x[w][i] -= update(w, i, eta) + e;
      }
    }
  }
};

RuleCluster cluster(const std::string& fields, int workers, float momentum = 0) {
  RuleCluster c(fields, workers, Quadratic::of(6, 0.3), momentum);
  c.setup.segments = {{0, 3, 1, 1}, {3, 3, 2, 1}};
  return c;
}

double dropping(int64_t iteration) { return iteration < 4 ? 0.2 : 0.05; }

TEST(SyncEasgd, IsTheRecurrence) {
  for (const std::string level : {"1", "2", "3"}) {
    RuleCluster c = cluster("model: 'sync_easgd' easgd_beta: 0.6 easgd_level: " + level, 3, 0.9F);
    c.schedule = dropping;
    c.start();
    Elastic e(Quadratic::of(6, 0.3), 3);
    for (int t = 0; t < 10; ++t) {
      for (const int w : {1, 0, 2}) {
        expect_near(c.weights(w), e.x[static_cast<size_t>(w)]);
        c.compute(w);
      }
      e.exchange({0, 1, 2}, dropping(t), 0.2);
      expect_near(c.theta, e.center);
    }
    EXPECT_DOUBLE_EQ(c.iteration, 10);
  }
}

TEST(SyncEasgd, TheMovingRateMayFollowTheLearningRate) {
  RuleCluster c = cluster("model: 'sync_easgd' easgd_rho: 1.5", 2);
  c.schedule = dropping;
  c.start();
  Elastic e(Quadratic::of(6, 0.3), 2);
  for (int t = 0; t < 8; ++t) {
    c.compute(0), c.compute(1);
    e.exchange({0, 1}, dropping(t), 1.5 * dropping(t));
    expect_near(c.theta, e.center);
    expect_near(c.weights(1), e.x[1]);
  }
}

TEST(SyncEasgd, StepsBetweenExchangesAreTheWorkersOwn) {
  for (const float momentum : {0.0F, 0.9F}) {
    const std::string fields = "model: 'sync_easgd' easgd_period: 3 easgd_momentum: true";
    RuleCluster c = cluster(fields, 2, momentum);
    c.start();
    Elastic e(Quadratic::of(6, 0.3), 2);
    e.momentum = momentum;
    for (int t = 0; t < 5; ++t) {
      c.compute(1), c.compute(0);
      e.local(0.1), e.local(0.1);
      e.exchange({0, 1}, 0.1, 0.45);
      expect_near(c.theta, e.center, 2e-6);
      expect_near(c.weights(0), e.x[0], 2e-6);
    }
    EXPECT_DOUBLE_EQ(c.iteration, 15);
  }
}

// beta = 1 without a gradient is plain averaging: the center becomes the mean of the workers.
TEST(SyncEasgd, BetaOneIsPlainAveraging) {
  ElasticOptions options;
  options.beta = 1;
  RuleSetup setup;
  setup.segments = {{0, 2, 1, 1}};
  setup.workers = 2;
  std::vector<float> theta{5, 5}, a{1, 2}, b{3, 8}, published(2);
  ElasticCenter center(options);
  center.set_up(setup, {theta, {}, nullptr});
  center.publish(published);
  EXPECT_EQ(published, theta);  // nothing was exchanged yet
  center.begin_round();
  center.apply({0, a, 0.5, 0.1, 0});
  center.apply({1, b, 0.5, 0.1, 0});
  center.end_round();
  EXPECT_EQ(theta, (std::vector<float>{2, 5}));
  center.publish(published);
  EXPECT_EQ(published, (std::vector<float>{5, 5}));  // as it was before
  EXPECT_FALSE(center.publishes_weights());
  EXPECT_NE(center.not_saved(), "");
}

TEST(SyncEasgd, WeightsLeaveEarlyAtLevelThreeAlone) {
  const auto early = [](const std::string& fields) {
    RuleCluster c = cluster("model: 'sync_easgd' " + fields, 2);
    return c.model().make_worker_rule()->pushes_early();
  };
  EXPECT_TRUE(early(""));
  EXPECT_FALSE(early("easgd_level: 1"));
  EXPECT_FALSE(early("easgd_level: 2"));
  EXPECT_FALSE(early("easgd_period: 2"));
}

// What a worker moves beside its gradient is what the center moves the other way.
TEST(AsyncEasgd, AnExchangeIsSymmetric) {
  for (const std::string model : {"async_easgd", "easgd", "hogwild_easgd"}) {
    Quadratic flat = Quadratic::of(6, 0.3);
    RuleCluster c("model: '" + model + "'", 3, flat);
    c.start();
    for (int t = 0; t < 12; ++t) {
      const int w = t % 3;
      const std::vector<float> center = c.theta, x = c.weights(w);
      c.compute(w);
      for (size_t i = 0; i < x.size(); ++i) {
        const double g = 0.1 * flat.curvature[i] * (x[i] - flat.minimum[i]);
        const double moved = c.weights(w)[i] - (x[i] - g);
        ASSERT_NEAR(moved, -(c.theta[i] - center[i]), 1e-6) << model;
      }
    }
    EXPECT_GT(norm(c.theta), 0.1);
  }
}

TEST(AsyncEasgd, IsTheRecurrenceInAnyOrder) {
  for (const std::string model : {"async_easgd", "async_measgd"}) {
    RuleCluster c = cluster("model: '" + model + "'", 3, 0.9F);
    c.start();
    Elastic e(Quadratic::of(6, 0.3), 3);
    e.momentum = model == "async_measgd" ? double{0.9F} : 0;
    for (const size_t w : {0, 0, 2, 1, 0, 2, 2, 1, 1, 0}) {
      c.compute(static_cast<int>(w));
      e.exchange({w}, 0.1, 0.3);
      expect_near(c.theta, e.center, 2e-6);
      expect_near(c.weights(static_cast<int>(w)), e.x[w], 2e-6);
    }
    EXPECT_NEAR(c.iteration, 10.0 / 3, 1e-12);
  }
}

// An exchange after one of another worker reads the center of before that one.
TEST(HogwildEasgd, MissesTheExchangeThatIsGoingOn) {
  ElasticOptions options;
  options.beta = 1;
  options.unlocked = true;
  RuleSetup setup;
  setup.segments = {{0, 1, 1, 1}};
  setup.workers = 2;
  std::vector<float> theta{0}, out(1);
  ElasticCenter center(options);
  center.set_up(setup, {theta, {}, nullptr});
  const auto push = [&](int worker, float x) {
    std::vector<float> values{x};
    center.begin_round();
    center.apply({worker, values, 0.5, 0.1, 0});
    center.end_round();
    center.publish(out);
    return std::pair(theta[0], out[0]);
  };
  EXPECT_EQ(push(0, 4), std::pair(2.0F, 0.0F));    // 0 + (4 - 0) / 2
  EXPECT_EQ(push(0, 6), std::pair(4.0F, 2.0F));    // its own was seen: 2 + (6 - 2) / 2
  EXPECT_EQ(push(1, 8), std::pair(7.0F, 2.0F));    // 4 + (8 - 2) / 2
  EXPECT_EQ(push(0, 10), std::pair(10.0F, 4.0F));  // 7 + (10 - 4) / 2
}

// The gradient of a push that the servers drop is not taken either.
TEST(ElasticWorker, AGradientThatIsNotFiniteLeavesNothing) {
  ElasticWorker rule{ElasticOptions()};
  RuleSetup setup;
  setup.segments = {{0, 2, 1, 1}};
  rule.set_up(setup, 2);
  const RuleAnswer answer{0, 1, [](int64_t) { return 0.1; }};
  std::vector<float> weights{1, 2}, bad{1, std::nanf("")}, center{1, 2};
  rule.received(weights, answer);
  EXPECT_TRUE(rule.step(weights, bad, 1, 1));
  rule.received(center, answer);
  EXPECT_EQ(center, (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace kinet
