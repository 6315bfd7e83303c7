// Local SGD (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019): workers take H
// steps of their own between two averages of their weights. Equations in
// src/sync/models/local_rounds.h; H = local_steps. H = 1 without momentum is bsp.
#include "src/sync/models/local_rounds.h"

namespace kinet {
namespace {

class LocalSgd : public LocalRounds {
 public:
  static SyncType describe_type() {
    return {"local_sgd", "workers average their weights every `local_steps` steps"};
  }
  void set_up(const Params& params, const SyncSetup& setup) override {
    LocalRounds::set_up(params, setup);
    set_steps(static_cast<double>(given()));
  }
  std::string describe() const override {
    return fmt::format("{} steps between averages", given());
  }
};
KINET_REGISTER_SYNC(LocalSgd);

}  // namespace
}  // namespace kinet
