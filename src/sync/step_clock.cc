#include "src/sync/step_clock.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/distributions.h"
#include "src/base/text.h"

namespace kinet {
namespace {

constexpr double kTaskVariation = 0.1, kMachineVariation = 0.6;  // V and U

}  // namespace

Rng clock_rng(uint64_t seed, ClockStream stream, int worker, int64_t gradient) {
  return Rng(seed, RngPurpose::kClock, static_cast<uint64_t>(stream), static_cast<uint64_t>(worker),
             static_cast<uint64_t>(gradient));
}

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
  Rng task = clock_rng(seed_, ClockStream::kTask, worker, gradient);
  Rng machine = clock_rng(seed_, ClockStream::kMachine, worker);
  switch (kind_) {
    case Kind::kConstant:
      return mean_;
    case Kind::kGamma:
      return gamma_draw(mean_, kTaskVariation, task);
    case Kind::kMachines:
      return gamma_draw(gamma_draw(mean_, kMachineVariation, machine), kTaskVariation, task);
    case Kind::kExponential:
      return exponential_draw(mean_, task);
  }
  return mean_;
}

}  // namespace kinet
