// Post-local SGD (Lin, Stich, Patel and Jaggi, "Don't Use Large Mini-Batches, Use Local SGD", ICLR
// 2020): averages after every step while the rate is large, local SGD after its first drop.
//
// Equation:  H = 1 until the first drop of the learning rate, then local_steps
// Ours: what a drop is. The published schedules fall in steps; here the rate has dropped when it is
// below 0.95 of the largest so far, so that warm-up is none, and a schedule that falls all the time
// counts once it has fallen by a twentieth. The model hears of a rate with the round that it made,
// so the first rounds after the drop still have one step. Momentum is the worker's own, as in the
// authors' code; it is kept over averages.
#include "src/sync/models/local_rounds.h"

namespace kinet {
namespace {

constexpr double kDrop = 0.95;

class PostLocalSgd : public LocalRounds {
 public:
  static SyncType describe_type() {
    return {"post_local_sgd", "local_sgd from the first drop of the rate on; before, every step"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    LocalRounds::set_up(params, setup);
    set_steps(1);
  }
  std::string describe() const override {
    return fmt::format("averages every step, every {} steps once the rate has dropped", given());
  }
  void measured(const RoundFacts& facts) override {
    top_ = std::max(top_, facts.rate);
    dropped_ |= facts.rate < kDrop * top_;
    if (dropped_) set_steps(static_cast<double>(given()));
  }
  std::vector<double> state() const override { return {top_, dropped_ ? 1.0 : 0.0}; }
  void restore(const std::vector<double>& s) override {
    if (s.size() != 2) return;
    top_ = s[0];
    dropped_ = s[1] != 0;
    if (dropped_) set_steps(static_cast<double>(given()));
  }

 private:
  double top_ = 0;
  bool dropped_ = false;
};
KINET_REGISTER_SYNC(PostLocalSgd);

}  // namespace
}  // namespace kinet
