// From an experiment and a strategy to the solver file that is run.
// Thread safety: none; parts of Experiment::parse().
#pragma once

#include "src/sim/experiment.h"

namespace kinet {

// The solver file as a tree; of an experiment without one, what an objective needs.
ParamNode read_solver_root(const Experiment& experiment);

// Rates as factors (negative) become rates, no rates become base_lr; all ascending.
void settle_rates(Experiment& experiment);

// Throws Error when a strategy makes no solver file or no model, for any number of workers.
void check_strategies(const Experiment& experiment);

}  // namespace kinet
