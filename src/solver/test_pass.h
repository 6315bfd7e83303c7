// One test of one net: the weights as they are, over the whole set or over as many batches as the
// solver file says.
//
// Equation: the value of an output is  sum over batches(items in batch * value) / items,  so a
// short last batch counts by its size, and the result does not depend on batch_size.
#pragma once

#include <optional>

#include "src/net/net.h"
#include "src/solver/observer.h"
#include "src/solver/solver.h"

namespace kinet {

struct TestPlan {
  int net = 0;                     // its number, for the record
  int64_t iteration = 0;           // of the training run
  std::optional<int64_t> batches;  // test_iter; absent: every item exactly once
};

// Starts at item 0. Looks at `control` (may be null) between batches: none when the user wants to
// stop. REQUIRES: context.phase == kTest
std::optional<TestRecord> run_test_pass(Net& net, const TestPlan& plan, Context context,
                                        const SolverControl* control);

// The values of the outputs of the last forward pass, element by element.
std::vector<OutputValue> output_values(const Net& net);

// The layer that a data source belongs to, or -1.
int layer_of_source(Net& net, const BatchSource* source);

}  // namespace kinet
