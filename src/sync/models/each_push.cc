#include "src/sync/models/each_push.h"

#include <cmath>

#include "src/base/check.h"

namespace kinet {

void EachPush::set_up(const Params& params, const SyncSetup& setup) {
  SyncModel::set_up(params, setup);
  push_weight_ = params.get_double("push_weight");
  if (!(push_weight_ >= 0 && push_weight_ <= 1)) {
    fail_at(params.where("push_weight"),
            fmt::format("push_weight must lie between 0 and 1, got {:g}", push_weight_));
  }
}

std::optional<Plan> EachPush::decide(double) {
  if (held().empty()) return std::nullopt;
  const Gradient& g = held().front();
  Plan plan;
  plan.k = 1;
  plan.members.push_back(member(g, weight(), use()));
  if (alive(g.worker) && waiting(g.worker)) plan.answer.push_back(g.worker);
  return plan;
}

}  // namespace kinet
