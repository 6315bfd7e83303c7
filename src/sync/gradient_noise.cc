#include "src/sync/gradient_noise.h"

#include <cmath>

#include "src/base/check.h"

namespace kinet {

bool GradientNoise::add(std::span<const double> gradient_norms2, double mean_norm2) {
  const double k = static_cast<double>(gradient_norms2.size());
  if (k < 2 || !std::isfinite(mean_norm2)) return false;
  double sum = 0;
  for (const double norm2 : gradient_norms2) sum += norm2;
  if (!std::isfinite(sum)) return false;
  const double m2 = sum / k;
  const double fade = std::exp(-(k - 1) / horizon_);
  noise_ = fade * noise_ + k * (m2 - mean_norm2);
  signal_ = fade * signal_ + (k * mean_norm2 - m2);
  weight_ = fade * weight_ + (k - 1);
  seen_ += k - 1;
  return true;
}

void GradientNoise::restore(std::span<const double> state) {
  KINET_CHECK(state.size() == 4, "the state of the gradient noise has {} numbers, not 4",
              state.size());
  noise_ = state[0];
  signal_ = state[1];
  weight_ = state[2];
  seen_ = state[3];
}

}  // namespace kinet
