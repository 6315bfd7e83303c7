// How long the gradients of modelled workers take: clocks with chosen figures, recorded times, and
// slow-downs on top of either.
//
// Equation (mean m, worker w, gradient i; V, U: variation of tasks, of machines):
//   CONSTANT             m
//   GAMMA                Gamma(mean m, standard deviation V m): machines alike
//   MACHINES             p_w ~ Gamma(m, U m) once for each machine, then Gamma(p_w, V p_w)
//   EXPONENTIAL          Exp(m)
//   SHIFTED_EXPONENTIAL  s + Exp(m - s): what every step needs, and chance
//   PARETO               m (a - 1) / a * u^(-1 / a), u uniform: heavy tails; shape a > 1
//   TRACE                the times of a file (step_trace.h), in their order, again from the start
//                        at their end; times m / their mean when m is given
// then, with slow_probability, times slow_factor (drawn for each gradient), and times the factor of
// `slow` for that worker. GAMMA with V = 0.1 and MACHINES with U = 0.6 have the bits of
// StepClock (src/sync/step_clock.h), which also names the source of both.
// A time is a pure function of (seed, w, i).
// Reference: exponential and shifted exponential: Lee et al., "Speeding up distributed machine
// learning using codes", IEEE Trans. Inf. Theory 64 (2018); Pareto: Dutta et al., "Slow and stale
// gradients can win the race", AISTATS 2018.
// Thread safety: const.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "src/prototxt/fields.h"
#include "src/sim/step_trace.h"

namespace kinet {

// Seconds of one gradient (forward and backward of one mini-batch) of one worker: a pure function
// of (seed, worker, number of the gradient).
class StepTimes {
 public:
  virtual ~StepTimes() = default;
  virtual double seconds(int worker, int64_t gradient) const = 0;
  // Over workers and gradients, with slow-downs, without what `slow` says of single workers; of a
  // trace: of its lines.
  virtual double mean() const = 0;
  virtual std::string describe() const = 0;
};

struct StepSettings {
  enum class Clock {
    kConstant,
    kGamma,
    kMachines,
    kExponential,
    kShiftedExponential,
    kPareto,
    kTrace
  };
  Clock clock = Clock::kConstant;
  double mean = 0;  // seconds; of kTrace: 0 leaves the times as they are
  double task_variation = 0.1, machine_variation = 0.6;  // standard deviation over mean
  double shift = 0;                                      // seconds, below the mean
  double shape = 3;                                      // of Pareto, above 1
  std::shared_ptr<const StepTrace> trace;                // of kTrace
  double slow_probability = 0, slow_factor = 5;
  std::map<int, double> slow;  // worker -> factor

  static const MessageType& fields();  // compute { }
  // What is wrong goes to `diagnostics`, all of it.
  static StepSettings from(const Params& compute, Diagnostics& diagnostics);
};

std::shared_ptr<const StepTimes> make_step_times(const StepSettings& settings, uint64_t seed);

}  // namespace kinet
