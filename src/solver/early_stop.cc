#include "src/solver/early_stop.h"

#include <fmt/core.h>

#include <algorithm>

#include "src/base/text.h"

namespace kinet {

EarlyStop::EarlyStop(const Params& param, const Net* test_net) : active_(param.present()) {
  if (!active_) return;
  metric_ = param.get_string("metric");
  patience_ = param.get_int("patience");
  min_delta_ = param.get_double("min_delta");
  const std::string mode = param.get_enum("mode");
  if (test_net == nullptr || test_net->outputs().empty()) {
    fail_at(param.where(), "early stop needs a test net with an output");
  }
  const auto& outputs = test_net->outputs();
  if (metric_.empty()) metric_ = outputs.front().name;
  const auto found = std::find_if(outputs.begin(), outputs.end(),
                                  [&](const Net::Output& o) { return o.name == metric_; });
  if (found == outputs.end()) {
    std::vector<std::string> names;
    for (const Net::Output& output : outputs) names.push_back(output.name);
    fail_at(param.where("metric"),
            fmt::format("the test net has no output '{}'{}; it has {}", metric_,
                        did_you_mean(metric_, names), join(names, ", ")));
  }
  more_is_better_ = mode == "AUTO" ? found->loss_weight == 0 : mode == "MAX";
}

void EarlyStop::observe(const TestRecord& record) {
  if (!active_ || record.net != 0) return;
  const auto found = std::find_if(record.outputs.begin(), record.outputs.end(),
                                  [&](const OutputValue& o) { return o.name == metric_; });
  if (found == record.outputs.end()) return;
  const double gain = !state_           ? 0
                      : more_is_better_ ? found->value - state_->best
                                        : state_->best - found->value;
  if (!state_ || gain > min_delta_) {
    state_ = EarlyStopRecord{found->value, record.iteration, 0};
  } else {
    ++state_->tests_since_best;
  }
}

bool EarlyStop::should_stop() const {
  return active_ && state_ && state_->tests_since_best >= std::max<int64_t>(1, patience_);
}

std::string EarlyStop::reason() const {
  return fmt::format("early stop: {} has not {} {:.6g} (iteration {}) in {} tests", metric_,
                     more_is_better_ ? "risen above" : "fallen below", state_->best,
                     state_->best_iteration, state_->tests_since_best);
}

}  // namespace kinet
