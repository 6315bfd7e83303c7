// One test of one net: the weights as they are, over the whole set or over as many batches as the
// solver file says; by one worker, or in shares by several.
//
// Equation: the value of an output is  sum over batches(items in batch * value) / items,  so a
// short last batch counts by its size, and the result does not depend on batch_size. Of `count`
// shares, share `index` scores the batches b with  b mod count == index;  the sums of all shares
// are those of the whole test up to the rounding of a double.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "src/net/net.h"
#include "src/solver/observer.h"

namespace kinet {

struct TestPlan {
  int net = 0;                     // its number, for the record
  int64_t iteration = 0;           // of the training run
  std::optional<int64_t> batches;  // test_iter; absent: every item exactly once
};

struct TestShare {
  int index = 0, count = 1;
};

// What a share has come to; additive.
struct TestSums {
  // One element of an output. Outputs may change their size from batch to batch (one value an
  // item): each element has its own weight.
  struct Element {
    double sum = 0, weight = 0;  // of items * value, of items
  };
  int64_t items = 0, skipped = 0;
  double loss = 0;                            // times items
  std::vector<std::vector<Element>> outputs;  // in the order of Net::outputs()

  void merge(const TestSums& other);  // to be called in the order of the shares
  // As numbers, for a message. unpack takes the first of several off `numbers`.
  void pack(std::vector<double>& numbers) const;
  static TestSums unpack(std::span<const double>& numbers);
};

// Starts at item 0. Asks `stop` (may be empty) before every batch: none when it says so.
// REQUIRES: context.phase == kTest
std::optional<TestSums> score_share(Net& net, const TestPlan& plan, const TestShare& share,
                                    Context context, const std::function<bool()>& stop);
// `sums`: of all shares. Its `seconds` is left to the caller.
TestRecord make_test_record(const Net& net, const TestPlan& plan, const TestSums& sums);

// The whole test on this worker.
std::optional<TestRecord> run_test_pass(Net& net, const TestPlan& plan, Context context,
                                        const std::function<bool()>& stop);

// The values of the outputs of the last forward pass, element by element.
std::vector<OutputValue> output_values(const Net& net);

// The layer that a data source belongs to, or -1.
int layer_of_source(Net& net, const BatchSource* source);

}  // namespace kinet
