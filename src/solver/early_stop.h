// Early stop: ends a run when an output of the first test net has not improved for `patience` tests
// in a row.
#pragma once

#include <optional>
#include <string>

#include "src/net/net.h"
#include "src/net/snapshot.h"
#include "src/solver/observer.h"

namespace kinet {

class EarlyStop {
 public:
  // Without early_stop_param: never stops. Throws when the test net has no output of that name.
  EarlyStop(const Params& param, const Net* test_net);

  void observe(const TestRecord& record);
  bool should_stop() const;
  std::string reason() const;  // "early stop: accuracy has not risen above 0.91 in 5 tests"

  // What a snapshot keeps; absent before the first test.
  const std::optional<EarlyStopRecord>& state() const { return state_; }
  void restore(const std::optional<EarlyStopRecord>& state) { state_ = state; }

 private:
  bool active_ = false;
  std::string metric_;
  bool more_is_better_ = true;
  int64_t patience_ = 0;
  double min_delta_ = 0;
  std::optional<EarlyStopRecord> state_;
};

}  // namespace kinet
