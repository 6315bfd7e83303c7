// Momentum-driven adaptive k-synchronisation: rounds wait for k gradients, k follows momentum,
// gradient noise and arrival times (src/sync/k_rule.h), and late gradients are absorbed.
//
// The idea is that of Zhang, Ji and Wang, "Momentum-driven adaptive synchronization model for
// distributed DNN training on HPC clusters" (JPDC 2022), of which only the abstract is public; the
// rules here are designed for kinet, see docs/momentum_k_sync.md.
//
// absorb        a round waits for            late gradients (lag tau)         weight of a gradient
//   LOOKAHEAD   k gradients of any age       there are none to be absorbed:   1/N
//               a worker that has pushed     each worker has its own
//               waits for the next round     momentum, and gets the weights
//                                            to which all momenta will lead
//                                            (late_weight: EQUAL; else by worth, late_worth.h)
//   ORDERED     k gradients of the newest    as if they had been on time      1/K
//   MOMENTUM    weights; a worker that is    into the momentum alone          1/K
//   STALENESS   late goes on at once         as fresh ones                    1/K / (tau + 1)
//   DROP                                     not at all                       1/K
// with K = k + the late weight that a round holds, or is expected to hold when that is more (a
// running mean, decay 0.9), counted by the displacement it causes in relation to a fresh one: 1,
// m^(tau+1), 1/(tau+1) or 0. So the weights of a round sum to at most 1, and to about 1, in every
// mode but MOMENTUM, which moves less than they say; without late gradients all modes but
// LOOKAHEAD are bsp when k = N. At momentum 0, MOMENTUM is DROP.
// ORDERED keeps k at N/2 or more unless k_min says otherwise.
// A gradient with tau > max_lag is dropped in any mode.
//
// LOOKAHEAD: N pushes make one iteration, whatever k; in the other modes a round does.
#include <algorithm>
#include <cmath>

#include "src/sync/arrival_model.h"
#include "src/sync/gradient_noise.h"
#include "src/sync/k_controller.h"
#include "src/sync/late_worth.h"
#include "src/sync/sync.h"

namespace kinet {
namespace {

class MomentumKSync : public SyncModel {
 public:
  static SyncType describe_type() {
    return {"momentum_k_sync",
            "rounds wait for k gradients; k adapts to momentum, noise and arrival times"};
  }

  void set_up(const Params& params, const SyncSetup& setup) override {
    SyncModel::set_up(params, setup);
    absorb_ = params.get_enum("absorb");
    if (absorb_ == "MOMENTUM" && setup.momentum == 0) absorb_ = "DROP";  // also in its counting
    max_lag_ = params.get_int("max_lag");
    for (const char* field : {"k", "k_min"}) {
      if (params.get_int(field) > setup.workers) {
        fail_at(params.where(field), fmt::format("{} is {}, but there are {} workers", field,
                                                 params.get_int(field), setup.workers));
      }
    }
    const bool plain = setup.solver_type == "SGD" || setup.solver_type == "Nesterov";
    if (!plain && (absorb_ == "LOOKAHEAD" || absorb_ == "ORDERED" || absorb_ == "MOMENTUM")) {
      fail_at(params.where("absorb"),
              fmt::format("absorb: {} is defined for type SGD and Nesterov, not {}\nhint: DROP or "
                          "STALENESS suit any type",
                          absorb_, setup.solver_type));
    }
    if (setup.solver_type == "Nesterov" && (absorb_ == "ORDERED" || absorb_ == "MOMENTUM")) {
      fail_at(params.where("absorb"),
              fmt::format("absorb: {} is defined for type SGD, not Nesterov\nhint: LOOKAHEAD gives "
                          "Nesterov's rule",
                          absorb_));
    }
    // The rules count on look-ahead. A gradient put in order late moves the weights by several
    // steps at once: at k = 1 of 8 LeNet diverged at a rate that it stands well at k = 4.
    controller_ = make_k_controller(params, absorb_ == "ORDERED" ? (setup.workers + 1) / 2 : 1);
    controller_->start(setup.workers);
    if (absorb_ == "LOOKAHEAD" && params.get_enum("late_weight") == "WORTH") {
      late_weights_.emplace(params.get_float("k_gap_half"));
    }
  }

  int k() const override { return std::clamp(controller_->k(), 1, std::max(1, live())); }
  bool wants_norms(int64_t round) const override {
    if (round <= kEarlyInterval) return true;  // k is not chosen yet
    return round % (round < kEarlyRounds ? kEarlyInterval : kInterval) == 0;
  }
  bool wants_product() const override { return controller_->needs_product(); }
  std::string describe() const override {
    return fmt::format("absorb {}, k starts at {}", absorb_, controller_->k());
  }

  void start_at(int64_t version, const std::vector<int64_t>& next_seq) override {
    SyncModel::start_at(version, next_seq);
    started_at_ = version;
  }
  void measured(const RoundFacts& facts) override {
    if (facts.mean_known && group_.size() >= 2) noise_.add(group_, facts.mean_squared);
    if (facts.norms) {
      momentum_norm_ = facts.momentum_norm;
      if (facts.step_norm > 0) step_norm_ = facts.step_norm;
      weight_norm_ = facts.weight_norm;
    }
    if (loss_first_ == 0) loss_first_ = facts.loss;
    loss_ = loss_ == 0 ? facts.loss : 0.9 * loss_ + 0.1 * facts.loss;
    rate_ = facts.rate;
    product_known_ = facts.product_known;
    product_ = facts.product;
    service_ =
        service_ == 0 ? facts.service_seconds : 0.95 * service_ + 0.05 * facts.service_seconds;
    ask(facts.round);
  }

  std::vector<double> state() const override {
    std::vector<double> out{
        late_, momentum_norm_, step_norm_, weight_norm_, loss_first_,
        loss_, rate_,          service_,   product_,     product_known_ ? 1.0 : 0};
    append(controller_->state(), out);
    append(noise_.state(), out);
    append(arrivals_.state(), out);
    if (late_weights_) append(late_weights_->state(), out);
    return out;
  }
  void restore(const std::vector<double>& state) override {
    std::span<const double> rest(state);
    double known = 0;
    for (double* number : {&late_, &momentum_norm_, &step_norm_, &weight_norm_, &loss_first_,
                           &loss_, &rate_, &service_, &product_, &known}) {
      KINET_CHECK(!rest.empty(), "the state of momentum_k_sync is cut off");
      *number = rest.front();
      rest = rest.subspan(1);
    }
    product_known_ = known != 0;
    controller_->restore(part(rest));
    noise_.restore(part(rest));
    arrivals_.restore(part(rest));
    if (late_weights_) late_weights_->restore(part(rest));
  }

 protected:
  std::optional<Plan> decide(double) override {
    if (auto plan = too_late()) return plan;
    std::optional<Plan> plan = absorb_ == "LOOKAHEAD" ? look_ahead() : absorb();
    if (plan && plan->applies()) {
      plan->terms = std::move(terms_);
      terms_.clear();
    }
    return plan;
  }

  void gradient_came(const Gradient& g) override { arrivals_.add(g.worker, g.seconds); }

  // While the workers of a run come together, k stays what it was saved as.
  void worker_changed(int worker) override {
    if (!alive(worker)) arrivals_.remove(worker);
    if (version() > started_at_) ask(version());
  }

 private:
  static constexpr int64_t kEarlyRounds = 64, kEarlyInterval = 4, kInterval = 16;

  // Numbers with their count in front, so that one list can hold several.
  static void append(const std::vector<double>& numbers, std::vector<double>& out) {
    out.push_back(static_cast<double>(numbers.size()));
    out.insert(out.end(), numbers.begin(), numbers.end());
  }
  static std::vector<double> part(std::span<const double>& rest) {
    const size_t count = rest.empty() ? 0 : static_cast<size_t>(rest.front());
    KINET_CHECK(!rest.empty() && count < rest.size(), "the state of momentum_k_sync is cut off");
    const auto numbers = rest.subspan(1, count);
    rest = rest.subspan(1 + count);
    return {numbers.begin(), numbers.end()};
  }

  void ask(int64_t round) {
    KInputs in;
    in.live = std::max(1, live());
    in.round = round;
    in.arrivals = &arrivals_;
    in.play.service.per_gradient = service_;
    in.play.late_dropped = absorb_ == "DROP";
    in.noise_known = noise_.known();
    in.noise = noise_.noise();
    in.signal = noise_.signal();
    in.momentum = setup().momentum;
    in.rate = rate_;
    in.momentum_norm = momentum_norm_;
    in.step_norm = step_norm_;
    in.weight_norm = weight_norm_;
    in.loss_first = loss_first_;
    in.loss_now = loss_;
    in.product_known = product_known_;
    in.product = product_;
    if (late_weights_) late_weights_->measure(in);
    KChoice choice = controller_->next(in);
    if (choice.decided) terms_ = std::move(choice.terms);
  }

  std::optional<Plan> too_late() const {
    Plan plan;
    for (const Gradient& g : held()) {
      if (lag(g) > max_lag_ || (absorb_ == "DROP" && lag(g) > 0)) {
        plan.members.push_back(member(g, 0, Use::kDrop));
      }
    }
    if (plan.members.empty()) return std::nullopt;
    plan.k = k();
    return plan;
  }

  void release(Plan& plan) const {
    for (const PlanMember& m : plan.members) {
      const bool listed =
          std::find(plan.answer.begin(), plan.answer.end(), m.worker) != plan.answer.end();
      if (!listed && alive(m.worker) && waiting(m.worker)) plan.answer.push_back(m.worker);
    }
  }

  std::optional<Plan> look_ahead() {
    Plan plan;
    plan.k = k();
    if (static_cast<int>(held().size()) < plan.k) return std::nullopt;
    const int64_t version = most_common_version();
    group_.clear();
    for (const Gradient& g : held()) {
      const double n = std::max(1, live());
      const double factor = late_weights_ ? late_weights_->next(lag(g) * k() / n, live()) : 1;
      plan.members.push_back(member(g, factor / n, Use::kOwnMomentum));
      plan.members.back().grouped = g.version == version;
      if (g.version == version) group_.push_back(g.norm_squared);
    }
    release(plan);
    return plan;
  }

  // Gradients at the same weights differ by noise alone.
  int64_t most_common_version() const {
    int64_t best = -1;
    int64_t most = 0;
    for (const Gradient& g : held()) {
      const auto same = std::count_if(held().begin(), held().end(), [&](const Gradient& other) {
        return other.version == g.version;
      });
      if (same > most) most = same, best = g.version;
    }
    return best;
  }

  std::optional<Plan> absorb() {
    Plan plan;
    plan.k = k();
    int fresh = 0;
    double late = 0;
    for (const Gradient& g : held()) {
      if (lag(g) == 0)
        ++fresh;
      else
        late += displacement(lag(g));
    }
    if (fresh < plan.k) return answer_late();
    const double divisor = plan.k + std::max(late_, late);
    group_.clear();
    for (const Gradient& g : held()) {
      if (lag(g) == 0) {
        plan.members.push_back(member(g, 1 / divisor, Use::kFresh));
        plan.members.back().grouped = true;
        group_.push_back(g.norm_squared);
      } else if (absorb_ == "STALENESS") {
        plan.members.push_back(member(g, 1 / divisor / (lag(g) + 1), Use::kFresh));
      } else {
        plan.members.push_back(
            member(g, 1 / divisor, absorb_ == "ORDERED" ? Use::kOrdered : Use::kMomentum));
      }
    }
    if (fresh < static_cast<int>(plan.members.size()) && absorb_ == "STALENESS") group_.clear();
    late_ = 0.9 * late_ + 0.1 * late;
    release(plan);
    return plan;
  }

  // Of a late gradient, as a part of what a fresh one of the same weight moves in the end.
  double displacement(int lag) const {
    if (absorb_ == "ORDERED") return 1;
    if (absorb_ == "MOMENTUM") return std::pow(setup().momentum, lag + 1);
    return absorb_ == "STALENESS" ? 1.0 / (lag + 1) : 0;
  }

  // Who came late does not wait for the round that absorbs what it brought.
  std::optional<Plan> answer_late() const {
    Plan plan;
    plan.k = k();
    for (int w = 0; w < workers(); ++w) {
      if (!alive(w) || !waiting(w) || held_of(w) >= slots()) continue;
      const bool fresh = std::any_of(held().begin(), held().end(), [&](const Gradient& g) {
        return g.worker == w && lag(g) == 0;
      });
      if (!fresh) plan.answer.push_back(w);
    }
    if (plan.answer.empty()) return std::nullopt;
    return plan;
  }

  std::string absorb_;
  int64_t max_lag_ = 0, started_at_ = 0;
  std::unique_ptr<KController> controller_;
  ArrivalModel arrivals_;
  GradientNoise noise_;
  std::optional<LateWeights> late_weights_;
  std::vector<double> group_;  // |g|^2 of the gradients behind the last round's mean
  KTerms terms_;               // of the last decision, until a round carries them
  double late_ = 0;            // expected weight of late gradients in a round
  double momentum_norm_ = 0, step_norm_ = 0, weight_norm_ = 0;
  double loss_first_ = 0, loss_ = 0, rate_ = 0, service_ = 0, product_ = 0;
  bool product_known_ = false;
};
KINET_REGISTER_SYNC(MomentumKSync);

}  // namespace
}  // namespace kinet
