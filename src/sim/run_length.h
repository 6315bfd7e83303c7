// How long a run on a virtual cluster is, from max_iter and max_epochs of its solver file.
#pragma once

#include "src/prototxt/fields.h"
#include "src/sim/problem.h"

namespace kinet {

// Samples of one iteration: N pushes of a batch each, or where push_weight says what a push is,
// 1 / push_weight pushes.
double samples_an_iteration(const Params& solver, const Problem& problem, int workers);

// Iterations. Throws Error when neither field is given, or max_epochs of a problem without epochs.
int64_t run_length(const Params& solver, const Problem& problem, int workers);

}  // namespace kinet
