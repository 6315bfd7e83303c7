// Method armijo: the largest rate whose step decreases the loss of the worker's own mini-batch
// sufficiently, measured with the step that momentum makes of it.
//
// Equation: with momentum mu a gradient moves the weights by eta / (1 - mu) in the end, so steps
//   r = eta / (1 - mu) are tried, and r is sufficient when
//     f(w - r d) <= f(w) - c r <g, d>,   c = `sufficient`.
//   On a quadratic with curvature h along d that is r <= 2 (1 - c) / h.
// The walk begins at the rate in use and goes up while steps are sufficient, or down until one is,
// by factors of 4 in the first search and 2 later; the gap is then halved in the logarithm. A loss
// that is NaN or infinite is not sufficient. When none is, a rate below all of them is proposed.
//
// Reference: Armijo 1966; on mini-batches: Vaswani et al., "Painless stochastic gradient",
// NeurIPS 2019, without momentum and in every step.
#include <algorithm>
#include <cmath>

#include "src/sync/lr_search.h"

namespace kinet {
namespace {

class Armijo : public LrMethod {
 public:
  using LrMethod::LrMethod;

  int64_t most_passes(bool first) const override { return first ? kFirstTrials : kTrials; }

  double propose(LrProbe& probe, const LrNow& now) const override {
    if (!(probe.slope() > 0) || !std::isfinite(probe.loss())) return 0;
    const double low = options_.base_lr / options_.bounds,
                 high = options_.base_lr * options_.bounds;
    const double factor = now.first ? 4 : 2;
    int64_t left = most_passes(now.first);
    const auto sufficient = [&](double eta) {
      --left;
      const double r = eta * now.reach;
      return probe.loss_at(r) <= probe.loss() - options_.sufficient * r * probe.slope();
    };
    double good = 0, bad = 0;
    if (sufficient(now.rate)) {
      good = now.rate;
      while (left > 0 && bad == 0 && good < high) {
        const double next = std::min(good * factor, high);
        (sufficient(next) ? good : bad) = next;
      }
    } else {
      bad = now.rate;
      while (left > 0 && good == 0 && bad > low * kClose) {
        const double next = std::max(bad / factor, std::sqrt(bad * low));
        (sufficient(next) ? good : bad) = next;
      }
    }
    if (good == 0) return std::max(bad / factor, low);  // below all that failed
    while (left > 0 && bad > 0) {
      const double middle = std::sqrt(good * bad);
      if (bad < good * kClose) break;
      (sufficient(middle) ? good : bad) = middle;
    }
    return good;
  }

 private:
  static constexpr int64_t kFirstTrials = 9;  // 64 times up or down is 4 of them; the rest halves
  static constexpr int64_t kTrials = 4;
  static constexpr double kClose = 1.2;  // a gap that is not worth a pass
};

KINET_REGISTER_LR_METHOD(Armijo, "armijo",
                         "the largest step that lowers the loss of the mini-batch enough");

}  // namespace
}  // namespace kinet
