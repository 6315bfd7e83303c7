// The counterparts of elastic averaging: the equations of src/sync/sgd_center.h in double
// precision. ctest: labels=unit,core,smoke timeout=60
#include "tests/rule_cluster.h"

namespace kinet {
namespace {

using Vec = std::vector<double>;

void expect_near(const std::vector<float>& got, const Vec& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6) << i;
}

double dropping(int64_t iteration) { return iteration < 4 ? 0.2 : 0.05; }

TEST(AsyncSgd, PlainAndWithMomentum) {
  for (const std::string model : {"async_sgd", "async_msgd"}) {
    RuleCluster c("model: '" + model + "'", 2, Quadratic::of(6, 0.3), 0.9F);
    c.setup.segments = {{0, 3, 1, 1}, {3, 3, 2, 1}};
    c.schedule = dropping;
    c.start();
    const double mu = model == "async_msgd" ? double{0.9F} : 0;
    const Quadratic f = Quadratic::of(6, 0.3);
    Vec theta(6, 0), v(6, 0);
    std::vector<Vec> seen(2, theta);
    int64_t pushes = 0;
    for (const size_t w : {0, 1, 1, 0, 1, 0}) {
      c.compute(static_cast<int>(w));
      for (size_t i = 0; i < 6; ++i) {
        const double g = f.curvature[i] * (seen[w][i] - f.minimum[i]);
        v[i] = mu * v[i] + dropping(pushes) * (i < 3 ? 1 : 2) * g;
        theta[i] -= v[i];
      }
      ++pushes;
      seen[w] = theta;
      expect_near(c.theta, theta);
    }
    EXPECT_DOUBLE_EQ(c.iteration, 6);  // each push is one, at the full rate
  }
}

TEST(AsyncSgd, APartOfAnIterationIsThatPartOfTheRate) {
  RuleCluster c("model: 'async_sgd' push_weight: 0.25", 2, Quadratic::of(1, 1));
  c.start();
  c.compute(0);
  EXPECT_NEAR(c.theta[0], 0.25 * 0.1, 1e-8);
  EXPECT_DOUBLE_EQ(c.iteration, 0.25);
}

TEST(HogwildSgd, AnswersMissTheUpdateOfTheOther) {
  RuleCluster c("model: 'hogwild_sgd'", 2, Quadratic::of(3, 0.5));
  c.start();
  const std::vector<float> first = c.theta;
  c.compute(0);
  const std::vector<float> second = c.theta;
  EXPECT_EQ(c.weights(0), second);  // there was nobody else
  c.compute(1);
  for (size_t i = 0; i < 3; ++i) {  // its own update, without that of worker 0
    EXPECT_NEAR(c.weights(1)[i], first[i] + (c.theta[i] - second[i]), 1e-7);
    EXPECT_NE(c.theta[i], second[i]);
  }
  const std::vector<float> third = c.theta;
  c.compute(1);
  EXPECT_EQ(c.weights(1), c.theta);
  EXPECT_NE(c.theta, third);
}

}  // namespace
}  // namespace kinet
