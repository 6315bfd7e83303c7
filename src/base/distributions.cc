#include "src/base/distributions.h"

#include <cmath>
#include <numbers>

namespace kinet {
namespace {

// Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
double standard_gamma(double shape, Rng& rng) {
  if (shape < 1) {  // their section 6: Gamma(a) = Gamma(a + 1) U^(1 / a)
    const double one_more = standard_gamma(shape + 1, rng);
    return one_more * std::pow(open_uniform(rng), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = standard_normal(rng), t = 1 + c * x, v = t * t * t;
    if (t > 0 && std::log(open_uniform(rng)) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

}  // namespace

double open_uniform(Rng& rng) {
  return (static_cast<double>(rng.next_u64() >> 11) + 0.5) * 0x1p-53;
}

double standard_normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(open_uniform(rng)));
  return radius * std::cos(2 * std::numbers::pi * open_uniform(rng));
}

double gamma_draw(double mean, double variation, Rng& rng) {
  if (variation == 0) return mean;
  const double square = variation * variation;
  return mean * square * standard_gamma(1 / square, rng);
}

double exponential_draw(double mean, Rng& rng) { return -mean * std::log(open_uniform(rng)); }

double pareto_draw(double mean, double shape, Rng& rng) {
  return mean * (shape - 1) / shape * std::pow(open_uniform(rng), -1 / shape);
}

}  // namespace kinet
