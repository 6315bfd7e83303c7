// The original elastic averaging of You, Buluc and Demmel (SC17): workers meet the center in the
// order of their numbers, round and round. Equations in src/sync/elastic.h.
//
// Turn t is that of worker t mod N; who has pushed before its turn waits for it. Gradients are
// computed meanwhile: it is the exchanges that are one after the other. (The paper's own figures
// say so: with 87 % of the time spent on communication, gradients one at a time as well could not
// be within 5.3 times the fastest form, which computes four at once and for 86 % of its time.)
// Turns of the dead are passed over; a worker that joins has its own from then on. A push is 1/N of
// an iteration for each of its steps.
#include <algorithm>

#include "src/sync/elastic.h"
#include "src/sync/models/each_push.h"

namespace kinet {
namespace {

class RoundRobinEasgd : public EachPush {
 public:
  static SyncType describe_type() {
    return {"easgd", "elastic averaging with a center, workers in turn by their numbers"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    EachPush::set_up(params, setup);
    options_ = read_elastic(params);
  }
  std::string describe() const override { return "in turn; " + options_.describe(); }
  int64_t local_steps() const override { return options_.period; }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<ElasticCenter>(options_);
  }
  std::unique_ptr<WorkerRule> make_worker_rule() const override {
    return std::make_unique<ElasticWorker>(options_);
  }
  std::vector<double> state() const override { return {static_cast<double>(turn_)}; }
  void restore(const std::vector<double>& state) override {
    if (state.size() != 1) return;
    turn_ = std::clamp(static_cast<int>(state[0]), 0, workers() - 1);
  }

 protected:
  std::optional<Plan> decide(double) override {
    for (int passed = 0; passed < workers() && !alive(turn_) && held_of(turn_) == 0; ++passed) {
      turn_ = after(turn_);
    }
    const auto g = std::find_if(held().begin(), held().end(),
                                [&](const Gradient& held) { return held.worker == turn_; });
    if (g == held().end()) return std::nullopt;
    Plan plan;
    plan.k = 1;
    plan.members.push_back(member(*g, weight(), use()));
    if (alive(turn_) && waiting(turn_)) plan.answer.push_back(turn_);
    turn_ = after(turn_);
    return plan;
  }

 private:
  int after(int worker) const { return (worker + 1) % workers(); }
  ElasticOptions options_;
  int turn_ = 0;
};
KINET_REGISTER_SYNC(RoundRobinEasgd);

}  // namespace
}  // namespace kinet
