// Synchronous training with backup workers (Chen, Pan, Monga, Bengio, Jozefowicz, "Revisiting
// Distributed Synchronous SGD", 2016).
//
// Equation:  of N workers, the update waits for the first N - b at the newest weights
//            g = (1/(N-b)) sum g_i;   what comes later is dropped
// Nobody is told to give up: a late worker ends its batch in vain and then begins anew.
#include <algorithm>

#include "src/sync/models/counted_rounds.h"

namespace kinet {
namespace {

class BackupWorkers : public CountedRounds {
 public:
  static SyncType describe_type() {
    return {"backup_workers",
            "every update waits for all but `backup` workers; late ones are lost"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    CountedRounds::set_up(params, setup);
    backup_ = params.get_int32("backup");
    if (backup_ >= setup.workers) {
      fail_at(params.where("backup"),
              fmt::format("{} backup workers of {}: nobody is waited for", backup_, setup.workers));
    }
  }
  int k() const override { return std::clamp(workers() - backup_, 1, std::max(1, live())); }
  std::string describe() const override {
    return fmt::format("{} of {} workers are backups", backup_, workers());
  }

 protected:
  RoundRule rule() const override { return {}; }

 private:
  int backup_ = 1;
};
KINET_REGISTER_SYNC(BackupWorkers);

}  // namespace
}  // namespace kinet
