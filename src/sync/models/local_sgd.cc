// Local SGD (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019): workers take H
// steps of their own between two averages of their weights.
//
// Worker:  H times  theta_i -= update(g_i)        the solver's rule, with its own momentum, which
// it
//                                                 keeps over the averages
//          push  d_i = theta - theta_i
// Server:  theta -= (1/N) sum_i d_i               which is the mean of the workers' weights
// H = 1 without momentum is bsp. A round counts as H iterations.
#include "src/sync/local_steps.h"
#include "src/sync/models/counted_rounds.h"

namespace kinet {
namespace {

class LocalSgd : public CountedRounds {
 public:
  static SyncType describe_type() {
    return {"local_sgd", "workers average their weights every `local_steps` steps"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    CountedRounds::set_up(params, setup);
    steps_ = params.get_int("local_steps");
    if (steps_ < 1) fail_at(params.where("local_steps"), "local_steps must be at least 1");
  }
  std::unique_ptr<WorkerRule> make_worker_rule() const override {
    return std::make_unique<LocalSteps>();
  }
  int64_t local_steps() const override { return steps_; }
  std::string describe() const override { return fmt::format("{} steps between averages", steps_); }

 protected:
  RoundRule rule() const override { return {}; }
  Use use() const override { return Use::kDifference; }

 private:
  int64_t steps_ = 8;
};
KINET_REGISTER_SYNC(LocalSgd);

}  // namespace
}  // namespace kinet
