// fixed_global_batch: the batch of the net file is that of all workers together.
#pragma once

#include <string>

#include "src/net/net_spec.h"

namespace kinet {

// The net with batch_size / workers in every data layer of `state`. Throws Error at the field that
// cannot be divided, and when no layer of that state has one.
ParamNode with_worker_batch(const ParamNode& net, const NetState& state, int workers);

// How many gradients an iteration is, and what each weighs, for the first lines of a run. `model`
// and `absorb` as in sync_param; `servers`: 0 for all-reduce.
std::string iteration_rule(const std::string& model, const std::string& absorb, int servers,
                           int workers);

}  // namespace kinet
