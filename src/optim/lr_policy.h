// Learning-rate policies: the rate is a pure function of the solver file and the iteration, so it
// is right at once after a resume with an edited file.
//
// Equation, with b = base_lr, i = iteration (updates applied so far), g = gamma, p = power,
// S = stepsize, N = max_iter:
//   fixed      b
//   step       b g^floor(i / S)
//   exp        b g^i
//   inv        b (1 + g i)^-p
//   multistep  b g^(number of stepvalues <= i)
//   poly       b (1 - i / N)^p, 0 from N on
//   sigmoid    b / (1 + exp(-g (i - S)))
//   cosine     b (1 + cos(pi i / N)) / 2, 0 from N on        (not in Caffe)
// Warm-up (not in Caffe), for any of them: in the first W = warmup_iter iterations
//   s + (rate(i) - s) i / W,   s = warmup_start_lr, by default b / (W + 1),
// which for a fixed rate is b (i + 1) / (W + 1): W + 1 even steps, none of them zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/prototxt/fields.h"

namespace kinet {

struct LrPolicy {
  std::string policy = "fixed";
  double base_lr = 0, gamma = 0, power = 0;
  int64_t stepsize = 0;
  std::vector<int64_t> stepvalues;  // ascending
  int64_t max_iter = 0;
  int64_t warmup_iter = 0;
  std::optional<double> warmup_start_lr;
};

// Names in the order of the table above.
std::vector<std::string> lr_policy_names();

// Reads the fields of a solver file; what a policy needs and does not find, and what makes no
// sense (stepvalues out of order ...), goes to `diagnostics`.
LrPolicy read_lr_policy(const Params& solver, Diagnostics& diagnostics);

double learning_rate(const LrPolicy& policy, int64_t iteration);

}  // namespace kinet
