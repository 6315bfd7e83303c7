// What models have in common whose pushes are applied one by one, as they come, and whose workers
// go on at once: asynchronous training and its many repairs.
#pragma once

#include <algorithm>

#include "src/sync/sync.h"

namespace kinet {

class EachPush : public SyncModel {
 public:
  void set_up(const Params& params, const SyncSetup& setup) override;
  int k() const override { return 1; }

 protected:
  std::optional<Plan> decide(double now) override;
  virtual Use use() const { return Use::kRule; }
  // Part of an iteration that a push is: push_weight, or 1 / live workers.
  virtual double weight() const {
    return push_weight_ > 0 ? push_weight_ : 1.0 / std::max(1, live());
  }
  double push_weight() const { return push_weight_; }  // 0: not given

 private:
  double push_weight_ = 0;
};

}  // namespace kinet
