#include "src/sync/late_worth.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kLargest = 2;          // weight: a fresh gradient among very late ones
constexpr double kWorthIterations = 2;  // over which worth is averaged
constexpr double kMostNoise = 100;  // a lost signal makes a late gradient worth less, not nothing

}  // namespace

double relative_gap(const KInputs& in) {
  return (1 + in.momentum) * in.momentum_norm / in.weight_norm;
}

double relative_noise(const KInputs& in) {
  if (!in.noise_known) return 0;
  if (in.signal <= 0) return kDrowned;
  return std::clamp(in.noise / (in.live * in.signal), 0.0, kDrowned);
}

double turn_per_iteration(double gap, double noise, double half) {
  return std::sqrt(1 + noise) * gap / half;
}

void LateWeights::measure(const KInputs& in) {
  if (!(in.momentum_norm > 0 && in.weight_norm > 0)) return;
  const double noise = std::min(relative_noise(in), kMostNoise);
  const double turn = turn_per_iteration(relative_gap(in), noise, half_);
  if (std::isfinite(turn)) turn_ = turn;
}

double LateWeights::next(double lag, int live) {
  if (turn_ == 0) return 1;
  const double worth = late_worth(turn_, lag);
  mean_ = mean_ == 0 ? worth : mean_ + (worth - mean_) / (kWorthIterations * live);
  return std::min(kLargest, worth / mean_);
}

void LateWeights::restore(std::span<const double> state) {
  KINET_CHECK(state.size() == 2, "the saved state of late gradients' weights has {} numbers, not 2",
              state.size());
  turn_ = state[0];
  mean_ = state[1];
}

}  // namespace kinet
