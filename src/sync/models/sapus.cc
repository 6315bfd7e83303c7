// A model after SaPus (Zhang and Wang, IEEE TPDS 2022): asynchronous local SGD in which workers
// decide themselves when to push, the server weighs pushes by the losses of the others, and a
// performance model bounds the number of exchanges from above.
//
// Only the abstract of that paper is public. What it names is here; every equation is ours
// (docs/rivals_sapus.md):
//   worker   src/sync/sapus_steps.h     pushes u when it is significant, incoherent or old enough
//   bound    src/sync/sapus_bound.h     H_res, the least steps of an exchange
//   server   theta <- theta - kappa w_i u_i        kappa = push_weight, or 1/N
//     w_i = clip( exp((L - l_i) / (s L)), w_min, w_max ) / M / (1 + t_i)^a
//     l_i    mean loss of the steps of the push
//     L      mean over the last losses of the other live workers: the global-loss window
//     M      running mean of the clipped weights (decay 0.95): while losses fall, the newest push
//     has
//            the least, and weights would grow without it, and the rate with them
//     t_i    rounds late: versions made since its pull over live workers, less the one round that
//            everybody is late in asynchronous training
// A push counts as kappa w_i of an iteration for each of its steps; with kappa = 1/N and w_i = 1 an
// iteration is as many samples as in bsp. The mean of w_i is in the log: below 1 it lowers the
// effective rate.
#include <cmath>

#include "src/sync/models/each_push.h"
#include "src/sync/sapus_bound.h"
#include "src/sync/sapus_steps.h"

namespace kinet {
namespace {

constexpr double kGigabit = 1e9 / 8;  // bytes a second
constexpr double kKept = 0.95;        // of running means, at a push
constexpr double kUnknown = -1;       // losses are finite; those of nets are not negative

class Sapus : public EachPush {
 public:
  static SyncType describe_type() {
    return {"sapus",
            "workers decide when to push the update of their own steps, weighed by losses"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    EachPush::set_up(params, setup);
    read_triggers(params);
    read_weights(params);
    SapusBudget budget;
    budget.server_share = not_negative(params, "sapus_server_share");
    budget.link_budget = not_negative(params, "sapus_link_budget") * kGigabit;
    budget.worker_link = not_negative(params, "sapus_worker_link") * kGigabit;
    budget.first = triggers_.most;
    budget.exchange_share = not_negative(params, "sapus_exchange_share");
    bound_ = SapusBound(budget, setup.workers, static_cast<double>(setup.floats));
    losses_.assign(static_cast<size_t>(setup.workers), kUnknown);
  }
  std::string describe() const override {
    return fmt::format("pushes of an update of {:g} of the weights, at most every {} steps",
                       triggers_.delta, triggers_.most);
  }
  int64_t local_steps() const override { return bound_.bounds(live()).steps; }
  std::unique_ptr<WorkerRule> make_worker_rule() const override {
    return std::make_unique<SapusSteps>(triggers_);
  }
  void measured(const RoundFacts& facts) override { bound_.served(facts.service_seconds); }
  std::vector<double> state() const override {
    std::vector<double> out = bound_.state();
    out.insert(out.end(), losses_.begin(), losses_.end());
    out.push_back(mean_loss_weight_);
    out.push_back(mean_weight_);
    return out;
  }
  void restore(const std::vector<double>& s) override {
    const auto bound = static_cast<std::ptrdiff_t>(bound_.state_size());
    if (s.size() != bound_.state_size() + losses_.size() + 2) return;
    bound_.restore({s.begin(), s.begin() + bound});
    losses_.assign(s.begin() + bound, s.end() - 2);
    mean_loss_weight_ = s[s.size() - 2];
    mean_weight_ = s.back();
  }

 protected:
  Use use() const override { return Use::kDifference; }
  void gradient_came(const Gradient& g) override {
    losses_[g.worker] = g.loss;
    bound_.pushed(g.worker, g.steps, g.seconds);
  }
  void worker_changed(int worker) override {
    if (alive(worker)) return;
    losses_[worker] = kUnknown;
    bound_.forget(worker);
  }
  std::optional<Plan> decide(double now) override {
    std::optional<Plan> plan = EachPush::decide(now);
    if (!plan) return plan;
    const Gradient& g = held().front();
    const double by_loss = loss_weight(g), late = rounds_late(g);
    const double w = by_loss / mean_loss_weight_ / std::pow(1 + late, staleness_);
    mean_loss_weight_ = kKept * mean_loss_weight_ + (1 - kKept) * by_loss;
    mean_weight_ = kKept * mean_weight_ + (1 - kKept) * w;
    plan->members[0].weight *= w;
    const SapusBound::Bounds bounds = bound_.bounds(live());
    plan->terms = {{"steps", static_cast<double>(g.steps)},
                   {"loss_weight", by_loss},
                   {"rounds_late", late},
                   {"mean_weight", mean_weight_},
                   {"bound_servers", bounds.servers},
                   {"bound_link", bounds.link},
                   {"bound_workers", bounds.workers}};
    return plan;
  }

 private:
  static double not_negative(const Params& params, const std::string& field) {
    const double value = params.get_double(field);
    if (!(value >= 0)) fail_at(params.where(field), field + " must not be negative");
    return value;
  }
  void read_triggers(const Params& params) {
    triggers_.delta = not_negative(params, "sapus_delta");
    triggers_.coherence = not_negative(params, "sapus_coherence");
    triggers_.most = params.get_int("sapus_most_steps");
    if (triggers_.most < 1) {
      fail_at(params.where("sapus_most_steps"), "sapus_most_steps must be at least 1");
    }
  }
  void read_weights(const Params& params) {
    scale_ = not_negative(params, "sapus_loss_scale");
    least_ = not_negative(params, "sapus_weight_min");
    largest_ = not_negative(params, "sapus_weight_max");
    staleness_ = not_negative(params, "sapus_staleness");
    if (!(least_ > 0 && least_ <= largest_)) {
      fail_at(params.where("sapus_weight_min"),
              "sapus_weight_min must lie above 0 and not above sapus_weight_max");
    }
  }
  double loss_weight(const Gradient& g) const {
    double sum = 0;
    int others = 0;
    for (int w = 0; w < workers(); ++w) {
      if (w == g.worker || losses_[w] == kUnknown) continue;
      sum += losses_[w];
      ++others;
    }
    if (scale_ == 0 || others == 0 || !(sum > 0)) return 1;
    const double mean = sum / others;
    return std::clamp(std::exp((mean - g.loss) / (scale_ * mean)), least_, largest_);
  }
  double rounds_late(const Gradient& g) const {
    return std::max(0.0, static_cast<double>(lag(g)) / std::max(1, live()) - 1);
  }

  SapusTriggers triggers_;
  SapusBound bound_;
  double scale_ = 0.25, least_ = 0.2, largest_ = 1.5, staleness_ = 0.5;
  std::vector<double> losses_;  // the window: the last one of each worker
  double mean_loss_weight_ = 1, mean_weight_ = 1;
};
KINET_REGISTER_SYNC(Sapus);

}  // namespace
}  // namespace kinet
