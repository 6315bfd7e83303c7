// The four models of Dutta, Joshi, Ghosh, Dube and Nagpurkar (AISTATS 2018; "Slow and Stale
// Gradients Can Win the Race", arXiv 2003.10579).
//
//   variant        waits for                            the others meanwhile     counts
//   K_SYNC         the first k workers, newest weights  give up, begin anew      fresh only
//   K_BATCH_SYNC   the first k mini-batches, newest     give up, begin anew      fresh only
//   K_ASYNC        the first k workers, any weights     go on                    stale too
//   K_BATCH_ASYNC  the first k mini-batches, any        go on                    stale too
//
// A round of mini-batches may have more of them than there are workers.
// Equation:  theta -= eta (1/k) sum of the k gradients   (with the solver's rule and momentum)
// k = N in K_SYNC is bsp; k = 1 in K_ASYNC is asynchronous SGD at the full rate.
#include <algorithm>

#include "src/sync/models/counted_rounds.h"

namespace kinet {
namespace {

class KSync : public CountedRounds {
 public:
  static SyncType describe_type() {
    return {"k_sync", "every update waits for the first k gradients (variant: K_SYNC ...)"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    CountedRounds::set_up(params, setup);
    variant_ = params.get_enum("variant");
    k_ = params.get_int32("k");
    if (k_ == 0) k_ = std::max(1, setup.workers / 2);
    batches_ = variant_ == "K_BATCH_SYNC" || variant_ == "K_BATCH_ASYNC";
    if (!batches_ && k_ > setup.workers) {
      fail_at(params.where("k"),
              fmt::format("k is {}, but there are {} workers", k_, setup.workers));
    }
  }
  int k() const override { return batches_ ? k_ : std::min(k_, std::max(1, live())); }
  std::string describe() const override { return fmt::format("{}, k = {}", variant_, k_); }

 protected:
  int largest_k() const override { return k_; }
  RoundRule rule() const override {
    const bool async = variant_ == "K_ASYNC" || variant_ == "K_BATCH_ASYNC";
    return {async, !batches_, !async, batches_};
  }

 private:
  std::string variant_;
  int k_ = 1;
  bool batches_ = false;
};
KINET_REGISTER_SYNC(KSync);

}  // namespace
}  // namespace kinet
