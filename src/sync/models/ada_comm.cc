// AdaComm (Wang and Joshi, "Adaptive Communication Strategies to Achieve the Best Error-Runtime
// Trade-off in Local-Update SGD", MLSys 2019): averages become more frequent as the loss falls.
//
// Equation, every T0 seconds (ada_interval):
//   H' = ceil( sqrt(eta_0 F / (eta F_0)) H_0 )        H_0 = local_steps
//   H  = H'      if H' < H, or if the rate has changed since the last look
//        H / 2   otherwise (at least 1)
// Ours: F is not the loss over the whole set but the running mean of the losses of rounds (decay
// 0.9), so it costs nothing; F_0 and eta_0 are those after the first N rounds. The paper's halving
// is for a loss that has not fallen; a drop of the rate, after which the first line gives a larger
// H, is not taken for that. The momentum is the worker's own; the paper's block momentum is not
// here.
#include <cmath>

#include "src/sync/models/local_rounds.h"

namespace kinet {
namespace {

class AdaComm : public LocalRounds {
 public:
  static SyncType describe_type() {
    return {"ada_comm", "local_sgd with fewer steps between averages as the loss falls"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    LocalRounds::set_up(params, setup);
    set_steps(static_cast<double>(given()));
    interval_ = params.get_double("ada_interval");
    if (interval_ < 0) fail_at(params.where("ada_interval"), "ada_interval must not be negative");
  }
  std::string describe() const override {
    return fmt::format("{} steps between averages at first, looked at every {:g} s", given(),
                       interval_);
  }
  void measured(const RoundFacts& facts) override {
    loss_ = rounds_++ == 0 ? facts.loss : 0.9 * loss_ + 0.1 * facts.loss;
    rate_ = facts.rate;
    if (rounds_ == workers()) {
      first_loss_ = loss_;
      first_rate_ = looked_rate_ = rate_;
    }
  }
  std::vector<double> state() const override {
    return {static_cast<double>(local_steps()),
            static_cast<double>(rounds_),
            loss_,
            rate_,
            first_loss_,
            first_rate_,
            looked_rate_};
  }
  void restore(const std::vector<double>& s) override {
    if (s.size() != 7) return;
    set_steps(s[0]);
    rounds_ = static_cast<int64_t>(s[1]);
    loss_ = s[2];
    rate_ = s[3];
    first_loss_ = s[4];
    first_rate_ = s[5];
    looked_rate_ = s[6];
  }

 protected:
  std::optional<Plan> decide(double now) override {
    if (looked_ < 0) looked_ = now;
    if (now - looked_ >= interval_ && rounds_ >= workers() && first_loss_ > 0) {
      look();
      looked_ = now;
    }
    std::optional<Plan> plan = LocalRounds::decide(now);
    if (plan && plan->applies()) {
      plan->terms.emplace_back("loss", loss_);
      plan->terms.emplace_back("first_loss", first_loss_);
    }
    return plan;
  }

 private:
  void look() {
    const bool same_rate = std::abs(rate_ - looked_rate_) <= 1e-9 * looked_rate_;
    looked_rate_ = rate_;
    if (!(rate_ > 0) || !(loss_ >= 0)) return;
    const double ratio = first_rate_ * loss_ / (rate_ * first_loss_);
    // Running means settle on whole numbers only nearly.
    const double wanted = std::ceil(std::sqrt(ratio) * static_cast<double>(given()) - 1e-6);
    const auto now = static_cast<double>(local_steps());
    set_steps(wanted < now || !same_rate ? wanted : std::floor(now / 2));
  }

  double interval_ = 60, looked_ = -1, loss_ = 0, rate_ = 0;
  double first_loss_ = 0, first_rate_ = 0, looked_rate_ = 0;
  int64_t rounds_ = 0;
};
KINET_REGISTER_SYNC(AdaComm);

}  // namespace
}  // namespace kinet
