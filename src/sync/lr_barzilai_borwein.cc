// Method barzilai_borwein: a rate from the curvature along the step: how much the gradient of the
// same mini-batch has changed after a trial step.
//
// Equation: with s = -r d and y = g(w - r d) - g(w), r the step in use times 1 / (1 - mu),
//     h = <s, y> / (r^2 <g, d>) = (1 - <g(w - r d), d> / <g, d>) / r     curvature along d
//     eta = (1 - mu) 2 (1 - c) / h
//   which is the Barzilai-Borwein step 1 / h for c = `sufficient` = 0.5. Only the gradient along d
//   is needed, so two losses give it: <g(w - r d), d> = (f(w - 0.9 r d) - f(w - 1.1 r d)) / (0.2
//   r).
// The trial step r is one that does not raise the loss: made 4 times shorter until it does not. The
// proposal is tried, too; where it raises the loss, half of the way back (in the logarithm) to the
// trial step is, and then the trial step is taken. Without curvature the rate is doubled.
//
// Reference: Barzilai, Borwein 1988; Tan et al., "Barzilai-Borwein step size for stochastic
// gradient descent", NeurIPS 2016, which takes s and y over many steps; the same batch for both as
// here is how stochastic quasi-Newton methods do.
#include <algorithm>
#include <cmath>

#include "src/sync/lr_search.h"

namespace kinet {
namespace {

class BarzilaiBorwein : public LrMethod {
 public:
  using LrMethod::LrMethod;

  int64_t most_passes(bool first) const override { return (first ? kFirst : kLater) + 2 + kTrials; }

  double propose(LrProbe& probe, const LrNow& now) const override {
    if (!(probe.slope() > 0) || !std::isfinite(probe.loss())) return 0;
    const auto lowers = [&](double eta) { return probe.loss_at(eta * now.reach) <= probe.loss(); };
    const double low = options_.base_lr / options_.bounds;
    const auto shorter = [&](double eta) { return std::max(eta / kShorter, std::sqrt(eta * low)); };
    double eta = now.rate;
    int left = now.first ? kFirst : kLater;
    while (left > 0 && !lowers(eta)) eta = shorter(eta), --left;
    if (left == 0) return eta;  // below all that failed
    const double r = eta * now.reach;
    const double curvature = (1 - slope_at(probe, r) / probe.slope()) / r;
    double found = 2 * eta;
    if (curvature > 0) found = 2 * (1 - options_.sufficient) / (curvature * now.reach);
    found = std::min(found, eta * kFarthest);
    for (int i = 0; i < kTrials; ++i) {
      if (lowers(found)) return found;
      found = std::sqrt(found * eta);
    }
    return eta;
  }

 private:
  static double slope_at(LrProbe& probe, double r) {
    const double h = 0.1 * r;
    return (probe.loss_at(r - h) - probe.loss_at(r + h)) / (2 * h);
  }

  static constexpr int kFirst = 5, kLater = 2, kTrials = 2;
  static constexpr double kShorter = 4, kFarthest = 64;
};

KINET_REGISTER_LR_METHOD(BarzilaiBorwein, "barzilai_borwein",
                         "from the curvature between two gradients of the mini-batch");

}  // namespace
}  // namespace kinet
