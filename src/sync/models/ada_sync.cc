// AdaSync (Dutta, Wang, Joshi, arXiv 2003.10579): k grows as the loss falls, so that training is
// fast and stale at first, exact and slower later.
//
// Equation:  every T0 seconds   k = min(N, round(k0 sqrt(F_0 / F_now)))
// for the variants whose time per update is proportional to k; here that of K_ASYNC. F is not the
// loss over the whole set, which the paper evaluates, but the running mean of the losses of rounds
// (decay 0.9), so it costs nothing; F_0 is the mean after the first N rounds. k never falls.
#include <algorithm>
#include <cmath>

#include "src/sync/models/counted_rounds.h"

namespace kinet {
namespace {

class AdaSync : public CountedRounds {
 public:
  static SyncType describe_type() {
    return {"ada_sync", "waits for k gradients of any age; k grows as the loss falls"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    CountedRounds::set_up(params, setup);
    const int start = params.get_int32("k");
    start_ = k_ = std::clamp(start == 0 ? 1 : start, 1, setup.workers);
    interval_ = params.get_double("ada_interval");
    if (interval_ < 0) fail_at(params.where("ada_interval"), "ada_interval must not be negative");
  }
  int k() const override { return std::clamp(k_, 1, std::max(1, live())); }
  std::string describe() const override {
    return fmt::format("k from {} to {}, looked at every {:g} s", start_, workers(), interval_);
  }
  void measured(const RoundFacts& facts) override {
    loss_ = rounds_++ == 0 ? facts.loss : 0.9 * loss_ + 0.1 * facts.loss;
    if (rounds_ == workers()) first_ = loss_;
  }
  std::vector<double> state() const override {
    return {static_cast<double>(k_), static_cast<double>(rounds_), loss_, first_};
  }
  void restore(const std::vector<double>& s) override {
    if (s.size() != 4) return;
    k_ = static_cast<int>(s[0]);
    rounds_ = static_cast<int64_t>(s[1]);
    loss_ = s[2];
    first_ = s[3];
  }

 protected:
  std::optional<Plan> decide(double now) override {
    if (looked_ < 0) looked_ = now;
    if (now - looked_ >= interval_ && rounds_ >= workers() && loss_ > 0) {
      const double wanted = start_ * std::sqrt(std::max(1.0, first_ / loss_));
      k_ = std::clamp(static_cast<int>(std::lround(wanted)), k_, workers());
      looked_ = now;
    }
    std::optional<Plan> plan = CountedRounds::decide(now);
    if (plan) plan->terms = {{"loss", loss_}, {"first_loss", first_}};
    return plan;
  }
  RoundRule rule() const override { return {true, true, false, false}; }

 private:
  int start_ = 1, k_ = 1;
  int64_t rounds_ = 0;
  double interval_ = 60, looked_ = -1, loss_ = 0, first_ = 0;
};
KINET_REGISTER_SYNC(AdaSync);

}  // namespace
}  // namespace kinet
