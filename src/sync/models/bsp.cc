// Bulk-synchronous training through servers: every round waits for all live workers.
//
// Equation:  g = (1/N) sum_i g_i,  theta_{t+1} = update(theta_t, g)
// The same bits as by all-reduce (src/sync/bsp.h), which `servers: 0` gives: there is nothing to
// choose between them but speed, and that a server outlives its workers: when one dies, the round
// goes on with the others.
#include "src/sync/models/counted_rounds.h"

namespace kinet {
namespace {

class BulkSynchronous : public CountedRounds {
 public:
  static SyncType describe_type() { return {"bsp", "every update waits for all workers"}; }
  std::string describe() const override { return "bulk-synchronous"; }

 protected:
  RoundRule rule() const override { return {}; }
};
KINET_REGISTER_SYNC(BulkSynchronous);

}  // namespace
}  // namespace kinet
