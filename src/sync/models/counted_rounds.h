// What models have in common whose round begins when k gradients are there.
#pragma once

#include "src/sync/sync.h"

namespace kinet {

struct RoundRule {
  bool any_version = false;  // late gradients count as well; else they are dropped
  bool distinct = true;      // one gradient of each worker; else k mini-batches, whoever made them
  bool cancel = false;       // who is not among the first k gives up and begins anew
  bool keep_going = false;   // a worker that has pushed goes on at once, with the newest weights
};

class CountedRounds : public SyncModel {
 public:
  int slots() const override;

 protected:
  std::optional<Plan> decide(double now) override;
  virtual RoundRule rule() const = 0;
  // The largest k that there may be; the servers' memory is sized by it.
  virtual int largest_k() const { return workers(); }
  // Of the gradients of a round of k; they sum to the part of an iteration that it is.
  virtual double weight(int members) const { return 1.0 / members; }
  virtual Use use() const { return Use::kFresh; }

 private:
  std::optional<Plan> late() const;  // drops what came too late
  std::optional<Plan> keep_going() const;
};

}  // namespace kinet
