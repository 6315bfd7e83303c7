#include "src/sync/sapus_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/math/vec.h"

namespace kinet {
namespace {

// A zero denominator: everything is significant, and straight on.
double part(double of, double whole, double otherwise) {
  return whole > 0 ? of / whole : otherwise;
}

}  // namespace

void SapusSteps::received(std::span<float> weights, const RuleAnswer& answer) {
  LocalSteps::received(weights, answer);
  base_norm_ = gradient_norm(weights, setup().threads);
  path_ = significance_ = 0;
  coherence_ = 1;
}

bool SapusSteps::step(std::span<float> weights, std::span<float> gradient, double /*loss*/,
                      int64_t number) {
  const auto n = static_cast<int64_t>(weights.size());
  scratch_.assign(weights.begin(), weights.end());
  move(weights, gradient, number);
  vec().sub(n, scratch_.data(), weights.data(), scratch_.data());
  path_ += gradient_norm(scratch_, setup().threads);
  vec().sub(n, base().data(), weights.data(), scratch_.data());
  const double length = gradient_norm(scratch_, setup().threads);
  significance_ = part(length, base_norm_, std::numeric_limits<double>::infinity());
  coherence_ = part(length, path_, 1);
  const double eta = rate(number);
  top_rate_ = std::max(top_rate_, eta);
  if (number < answer().steps) return false;
  const double limit = triggers_.delta * part(eta, top_rate_, 1);
  return significance_ >= limit || coherence_ <= triggers_.coherence || number >= triggers_.most;
}

}  // namespace kinet
