// Statistics of a few repeated runs: mean, spread, and the paired interval of a speed-up.
//
// Speed-up over a baseline: both ran with the same seeds, so each seed gives a pair, and what the
// seed does to both (start, order of data, drawn times) cancels.
//   d_i = ln(T_baseline,i / T_i),  speed-up - 1 = exp(mean d) - 1   (geometric mean of the ratios)
//   95 % interval: exp(mean d -+ t(0.975, n - 1) sd(d) / sqrt(n)) - 1
// In logarithms because a ratio and its inverse are then the same distance from 1.
// Reference: Student, "The probable error of a mean", Biometrika 6 (1908).
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <vector>

namespace kinet {

struct Summary {
  int count = 0;
  double mean = 0;
  double deviation = 0;  // of the sample, with count - 1; 0 for one value
};
Summary summarize(const std::vector<double>& values);

// The value that Student's t with so many degrees of freedom stays below with probability 0.975.
// REQUIRES: freedom >= 1.
double t_975(int freedom);

struct SpeedUp {
  int pairs = 0;
  double gain = 0;            // speed-up - 1: 0.5 is 50 % faster
  bool has_interval = false;  // of two pairs at least
  double low = 0, high = 0;   // 95 %
  // Zero does not lie in the interval.
  bool clear() const { return has_interval && (low > 0 || high < 0); }
};

// Of times `theirs` over `ours`, pair by pair; pairs that lack one are left out. Nothing without a
// pair.
std::optional<SpeedUp> speed_up(const std::vector<std::optional<double>>& theirs,
                                const std::vector<std::optional<double>>& ours);

}  // namespace kinet
