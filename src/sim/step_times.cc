#include "src/sim/step_times.h"

#include <fmt/format.h>

#include <cmath>

#include "src/base/check.h"
#include "src/base/distributions.h"
#include "src/sync/step_clock.h"

namespace kinet {
namespace {

using Clock = StepSettings::Clock;

class DrawnTimes : public StepTimes {
 public:
  DrawnTimes(const StepSettings& settings, uint64_t seed) : s_(settings), seed_(seed) {}

  double seconds(int worker, int64_t gradient) const override {
    double seconds = draw(worker, gradient);
    if (s_.slow_probability > 0) {
      Rng rng = clock_rng(seed_, ClockStream::kSlowDown, worker, gradient);
      if (open_uniform(rng) < s_.slow_probability) seconds *= s_.slow_factor;
    }
    const auto slow = s_.slow.find(worker);
    return slow == s_.slow.end() ? seconds : seconds * slow->second;
  }

  double mean() const override {
    return plain_mean() * (1 + s_.slow_probability * (s_.slow_factor - 1));
  }

  std::string describe() const override {
    std::string out = fmt::format("{:.4g} s, {}", plain_mean(), clock_text());
    if (s_.slow_probability > 0) {
      out += fmt::format("; {:.4g} % of the steps {:.4g} times as long", 100 * s_.slow_probability,
                         s_.slow_factor);
    }
    for (const auto& [worker, factor] : s_.slow) {
      out += fmt::format("; worker {} {:.4g} times as long", worker, factor);
    }
    return out;
  }

 private:
  double draw(int worker, int64_t gradient) const {
    Rng task = clock_rng(seed_, ClockStream::kTask, worker, gradient);
    switch (s_.clock) {
      case Clock::kConstant:
        return s_.mean;
      case Clock::kGamma:
        return gamma_draw(s_.mean, s_.task_variation, task);
      case Clock::kMachines: {
        Rng machine = clock_rng(seed_, ClockStream::kMachine, worker);
        const double own = gamma_draw(s_.mean, s_.machine_variation, machine);
        return gamma_draw(own, s_.task_variation, task);
      }
      case Clock::kExponential:
        return exponential_draw(s_.mean, task);
      case Clock::kShiftedExponential:
        return s_.shift + exponential_draw(s_.mean - s_.shift, task);
      case Clock::kPareto:
        return pareto_draw(s_.mean, s_.shape, task);
      case Clock::kTrace:
        return traced(worker, gradient);
    }
    return s_.mean;
  }

  // Workers beyond those of the file take the times of one of them from another place on, so that
  // no two do the same at the same time.
  double traced(int worker, int64_t gradient) const {
    const auto& all = s_.trace->by_worker;
    const std::vector<double>& own = all[static_cast<size_t>(worker) % all.size()];
    uint64_t place = 0;
    if (static_cast<size_t>(worker) >= all.size()) {
      place = clock_rng(seed_, ClockStream::kTrace, worker).below(own.size());
    }
    const double seconds = own[(place + static_cast<uint64_t>(gradient)) % own.size()];
    return s_.mean > 0 ? seconds * (s_.mean / s_.trace->mean()) : seconds;
  }

  double plain_mean() const {
    return s_.clock == Clock::kTrace && s_.mean <= 0 ? s_.trace->mean() : s_.mean;
  }

  std::string clock_text() const {
    switch (s_.clock) {
      case Clock::kConstant:
        return "constant";
      case Clock::kGamma:
        return fmt::format("gamma (variation {:.4g})", s_.task_variation);
      case Clock::kMachines:
        return fmt::format("machines that differ by {:.4g}, tasks by {:.4g}", s_.machine_variation,
                           s_.task_variation);
      case Clock::kExponential:
        return "exponential";
      case Clock::kShiftedExponential:
        return fmt::format("exponential above {:.4g} s", s_.shift);
      case Clock::kPareto:
        return fmt::format("Pareto (shape {:.4g})", s_.shape);
      case Clock::kTrace:
        return fmt::format("{} recorded steps of {} workers", s_.trace->times(),
                           s_.trace->by_worker.size());
    }
    return "";
  }

  const StepSettings s_;
  const uint64_t seed_;
};

}  // namespace

std::shared_ptr<const StepTimes> make_step_times(const StepSettings& settings, uint64_t seed) {
  KINET_CHECK(settings.clock != Clock::kTrace || settings.trace != nullptr,
              "recorded step times without a record");
  return std::make_shared<DrawnTimes>(settings, seed);
}

}  // namespace kinet
