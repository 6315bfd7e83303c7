// How long the gradients of modelled workers take.
//
// Equation (mean m, worker w, gradient i):
//   constant     m
//   gamma        Gamma(shape 1/V^2, scale m V^2), V = 0.1: machines alike, tasks that vary
//   machines     p_w ~ Gamma(1/U^2, m U^2) once for each machine, U = 0.6, then
//                Gamma(1/V^2, p_w V^2): fast and slow machines
//   exponential  Exp(m): tasks that vary as much as theory mostly assumes
// Every time is a pure function of (seed, w, i), so that a simulated run can be repeated, whatever
// runs beside it.
// Reference: Ali, Siegel, Maheswaran, Hensgen, Ali, "Task execution time modeling for heterogeneous
// computing systems", HCW 2000 (the coefficient-of-variation method).
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/rng.h"

namespace kinet {

// What is drawn for a worker's times: a stream for each.
enum class ClockStream : uint64_t { kTask, kMachine, kSlowDown, kTrace };
Rng clock_rng(uint64_t seed, ClockStream stream, int worker, int64_t gradient = 0);

class StepClock {
 public:
  enum class Kind { kConstant, kGamma, kMachines, kExponential };

  StepClock(Kind kind, double mean, uint64_t seed) : kind_(kind), mean_(mean), seed_(seed) {}

  // "constant", "gamma", "machines", "exponential"; throws Error for another name.
  static Kind kind_of(const std::string& name);
  static const std::vector<std::string>& names();

  double seconds(int worker, int64_t gradient) const;

 private:
  Kind kind_;
  double mean_;  // seconds
  uint64_t seed_;
};

}  // namespace kinet
