// Where elastic averaging is stable on a quadratic: the bounds of src/sync/elastic.h, from both
// sides. ctest: labels=unit,core,smoke timeout=60
#include <cmath>

#include "tests/rule_cluster.h"

namespace kinet {
namespace {

// Distance from the minimum after so many rounds, over that at the start.
double growth(const std::string& model, double eta, double a, int workers) {
  Quadratic one;
  one.curvature = {1};
  one.minimum = {1};
  RuleCluster c(fmt::format("model: '{}' easgd_rho: {}", model, a / eta), workers, one);
  c.schedule = [eta](int64_t) { return eta; };
  c.start();
  for (int t = 0; t < 400; ++t) {
    for (int w = 0; w < workers; ++w) c.compute(w);
    if (std::abs(c.theta[0]) > 1e6F) break;
  }
  return std::abs(c.theta[0] - 1);
}

// The bound is that of an odd number of workers; an even one bears up to 6 % more.
TEST(Stability, InTurnUpToTheBoundOfThePaper) {
  for (const double eta : {0.3, 1.0, 1.6}) {
    const double bound = (4 - 2 * eta) / (4 - eta);
    for (const int workers : {1, 2, 3}) {
      EXPECT_LT(growth("easgd", eta, 0.95 * bound, workers), 1e-2) << eta << ' ' << workers;
      EXPECT_GT(growth("easgd", eta, (workers == 2 ? 1.1 : 1.05) * bound, workers), 10)
          << eta << ' ' << workers;
    }
  }
}

TEST(Stability, SynchronousUpToTheBoundOfTheHead) {
  for (const double eta : {0.1, 0.5, 1.5}) {
    for (const int n : {1, 2, 8}) {
      const double a = (4 - 2 * eta) / (2 - eta + 2.0 / n) / n;
      EXPECT_LT(growth("sync_easgd", eta, 0.95 * a, n), 1e-2) << eta << ' ' << n;
      EXPECT_GT(growth("sync_easgd", eta, 1.05 * a, n), 10) << eta << ' ' << n;
    }
  }
}

}  // namespace
}  // namespace kinet
