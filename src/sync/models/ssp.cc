// Stale-synchronous parallel training (Ho et al., NIPS 2013), and asynchronous training as the case
// without a bound.
//
// Equation:  every gradient is applied at once with weight 1/N:  theta -= eta (1/N) g_i
//            a worker at clock c (gradients pushed) goes on while  c - min_j c_j <= s
// Invariant: a worker at clock c is given weights that hold every gradient of clock c - s - 1 or
//   before.
// With weight 1/N, N pushes make one iteration, as one round of bsp does (push_weight: 1: each is
// one); the solver's momentum is the server's, applied at every push. s = 0 is a barrier without
// the common update. A worker that joins takes the lowest clock of the live ones.
#include <algorithm>

#include "src/sync/models/each_push.h"

namespace kinet {
namespace {

class StaleSynchronous : public EachPush {
 public:
  static SyncType describe_type() {
    return {"ssp", "gradients are applied as they come; nobody is more than `bound` ahead"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    EachPush::set_up(params, setup);
    bound_ = params.get_int("bound");
    clock_.assign(setup.workers, 0);
  }
  std::string describe() const override { return fmt::format("staleness bound {}", bound_); }
  std::vector<double> state() const override { return {clock_.begin(), clock_.end()}; }
  void restore(const std::vector<double>& state) override {
    if (state.size() == clock_.size()) clock_.assign(state.begin(), state.end());
  }

 protected:
  std::optional<Plan> decide(double) override {
    if (held().empty()) return std::nullopt;
    const Gradient& g = held().front();
    Plan plan;
    plan.k = 1;
    plan.members.push_back(member(g, weight(), Use::kFresh));
    const bool go_on = alive(g.worker) && waiting(g.worker) && within_bound(g.worker);
    // With a bound the others' gradients come first: who goes on sees all that it waited for.
    if (go_on && (bound_ < 0 || held().size() == 1)) plan.answer.push_back(g.worker);
    return plan;
  }
  void gradient_came(const Gradient& g) override { ++clock_[g.worker]; }
  void worker_changed(int worker) override {
    if (alive(worker) && live() > 1) clock_[worker] = std::max(clock_[worker], slowest(worker));
  }
  bool may_answer(int worker) const override {
    return bound_ < 0 || (held().empty() && within_bound(worker));
  }
  void no_bound() { bound_ = -1; }

 private:
  bool within_bound(int worker) const {
    return bound_ < 0 || clock_[worker] - slowest(-1) <= bound_;
  }
  int64_t slowest(int without) const {
    int64_t low = INT64_MAX;
    for (int w = 0; w < workers(); ++w) {
      if (alive(w) && w != without) low = std::min(low, clock_[w]);
    }
    return low;
  }
  int64_t bound_ = 3;
  std::vector<int64_t> clock_;  // gradients pushed, by worker
};
KINET_REGISTER_SYNC(StaleSynchronous);

class Asynchronous : public StaleSynchronous {
 public:
  static SyncType describe_type() {
    return {"asp", "gradients are applied as they come; nobody waits"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    StaleSynchronous::set_up(params, setup);
    no_bound();
  }
  std::string describe() const override { return "asynchronous"; }
};
KINET_REGISTER_SYNC(Asynchronous);

}  // namespace
}  // namespace kinet
