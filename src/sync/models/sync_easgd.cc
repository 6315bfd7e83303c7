// Synchronous elastic averaging (You, Buluc and Demmel, SC17, "communication-efficient EASGD"): all
// workers meet the center at once. Equations in src/sync/elastic.h.
//
//   x_i <- x_i - eta g_i - a (x_i - W),   W <- W + a sum_i (x_i - W),   all of the same step t
//   level 1   the sum is made at the server, from pushes that follow the gradients
//   level 2   the same, where the paper moves the center from the host to a device, so that weights
//             go between devices. Nothing else changes, and servers of kinet have no device: on a
//             virtual cluster it is the profile that says what such a link costs.
//   level 3   weights leave before their gradients are computed, so that the exchange, up and down,
//             hides behind the computation. The loss that goes with them is that of the step
//             before.
// All levels give the same bits. Weights leave early with `easgd_period: 1` only: with more steps
// they are not known until the last. beta = 1 and no gradients is plain averaging.
#include "src/sync/elastic.h"
#include "src/sync/models/counted_rounds.h"

namespace kinet {
namespace {

class SyncEasgd : public CountedRounds {
 public:
  static SyncType describe_type() {
    return {"sync_easgd", "elastic averaging with a center, all workers at once"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    CountedRounds::set_up(params, setup);
    options_ = read_elastic(params);
    level_ = params.get_int32("easgd_level");
    if (level_ < 1 || level_ > 3) {
      fail_at(params.where("easgd_level"),
              fmt::format("easgd_level must be 1, 2 or 3, got {}", level_));
    }
    options_.early = level_ == 3;
    options_.together = true;
  }
  std::string describe() const override {
    return fmt::format("level {}; {}", level_, options_.describe());
  }
  int64_t local_steps() const override { return options_.period; }
  bool of_all() const override { return true; }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<ElasticCenter>(options_);
  }
  std::unique_ptr<WorkerRule> make_worker_rule() const override {
    return std::make_unique<ElasticWorker>(options_);
  }

 protected:
  // Weights of a worker are never too late: who has died pulls once more.
  RoundRule rule() const override { return {.any_version = true}; }
  Use use() const override { return Use::kRule; }

 private:
  ElasticOptions options_;
  int level_ = 3;
};
KINET_REGISTER_SYNC(SyncEasgd);

}  // namespace
}  // namespace kinet
