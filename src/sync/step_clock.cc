#include "src/sync/step_clock.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/base/text.h"

namespace kinet {
namespace {

constexpr double kTaskVariation = 0.1, kMachineVariation = 0.6;  // V and U

enum Stream : uint64_t { kTask, kMachine };

double uniform(Rng& rng) {  // (0, 1), 53 bits
  return (static_cast<double>(rng.next_u64() >> 11) + 0.5) * 0x1p-53;
}

double normal(Rng& rng) {
  const double radius = std::sqrt(-2 * std::log(uniform(rng)));
  return radius * std::cos(2 * std::numbers::pi * uniform(rng));
}

// Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
// REQUIRES: shape >= 1
double standard_gamma(double shape, Rng& rng) {
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(rng), t = 1 + c * x, v = t * t * t;
    if (t > 0 && std::log(uniform(rng)) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// Gamma with a mean and a standard deviation of variation * mean.
double gamma(double mean, double variation, Rng& rng) {
  const double square = variation * variation;
  return mean * square * standard_gamma(1 / square, rng);
}

}  // namespace

const std::vector<std::string>& StepClock::names() {
  static const std::vector<std::string> names{"constant", "gamma", "machines", "exponential"};
  return names;
}

StepClock::Kind StepClock::kind_of(const std::string& name) {
  const auto it = std::find(names().begin(), names().end(), name);
  KINET_CHECK(it != names().end(), "--clock {}: there is no such clock{}\nhint: {}", name,
              did_you_mean(name, names()), join(names(), ", "));
  return static_cast<Kind>(it - names().begin());
}

double StepClock::seconds(int worker, int64_t gradient) const {
  const auto w = static_cast<uint64_t>(worker);
  Rng task(seed_, RngPurpose::kClock, kTask, w, static_cast<uint64_t>(gradient));
  Rng machine(seed_, RngPurpose::kClock, kMachine, w);
  switch (kind_) {
    case Kind::kConstant:
      return mean_;
    case Kind::kGamma:
      return gamma(mean_, kTaskVariation, task);
    case Kind::kMachines:
      return gamma(gamma(mean_, kMachineVariation, machine), kTaskVariation, task);
    case Kind::kExponential:
      return -mean_ * std::log(uniform(task));
  }
  return mean_;
}

}  // namespace kinet
