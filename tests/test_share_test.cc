// ctest: labels=unit,core timeout=60
//
// A test in shares: whatever their number, the sums are those of one worker, with every item
// counted once and the same words about coverage.
#include <cmath>

#include "src/solver/test_pass.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

class TestShares : public SolverTest {
 protected:
  // The test net over the 7 images of the test set, in batches of `batch`.
  std::unique_ptr<TestRun> solver(int batch, const std::string& more = "") {
    const std::string fields =
        "base_lr: 0.1 max_iter: 5 random_seed: 5 test_interval: 100 " + more + kNoSnapshot;
    return std::make_unique<TestRun>(solver_text(net(kRelu, 4, batch), fields), options_);
  }

  static Context test_context() {
    Context context;
    context.phase = Phase::kTest;
    return context;
  }

  // What `count` workers make of it, each through the numbers that it would send.
  static TestRecord in_shares(Net& net, const TestPlan& plan, int count) {
    TestSums all;
    for (int i = 0; i < count; ++i) {
      std::vector<double> numbers;
      score_share(net, plan, {i, count}, test_context(), nullptr)->pack(numbers);
      std::span<const double> rest(numbers);
      all.merge(TestSums::unpack(rest));
      EXPECT_TRUE(rest.empty());
    }
    return make_test_record(net, plan, all);
  }

  static void expect_same(const TestRecord& a, const TestRecord& b) {
    EXPECT_EQ(a.items, b.items);
    EXPECT_EQ(a.set_items, b.set_items);
    EXPECT_EQ(a.coverage, b.coverage);
    EXPECT_NEAR(a.loss, b.loss, 1e-12 * b.loss);
    ASSERT_EQ(a.outputs.size(), b.outputs.size());
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      EXPECT_EQ(a.outputs[i].name, b.outputs[i].name);
      EXPECT_EQ(a.outputs[i].loss_weight, b.outputs[i].loss_weight);
      EXPECT_NEAR(a.outputs[i].value, b.outputs[i].value, 1e-12 * std::abs(b.outputs[i].value));
    }
  }

  static void check(Net& net, const TestPlan& plan) {
    const TestRecord whole = *run_test_pass(net, plan, test_context(), nullptr);
    for (const int count : {1, 2, 3, 4, 9}) expect_same(in_shares(net, plan, count), whole);
    expect_same(*run_test_pass(net, plan, test_context(), nullptr), whole);  // nothing is left over
  }
};

// 7 items: a short last batch, or none; more workers than batches.
TEST_F(TestShares, AnyNumberOfSharesMakesTheWholeSet) {
  for (const int batch : {1, 2, 3, 7, 10}) {
    const auto run = solver(batch);
    check(run->solver->test_net(0), {});
    EXPECT_EQ(in_shares(run->solver->test_net(0), {}, 3).items, 7);
  }
}

TEST_F(TestShares, TestIterCountsBatchesOfAllWorkers) {
  const auto run = solver(3);
  for (const int64_t batches : {1, 2, 5}) {
    TestPlan plan;
    plan.batches = batches;
    check(run->solver->test_net(0), plan);
    const TestRecord record = in_shares(run->solver->test_net(0), plan, 4);
    EXPECT_EQ(record.items, 3 * batches);
    EXPECT_NE(record.coverage, "");
  }
}

// Which batch is scored decides what layers draw: share 1 of 2 sees what the whole test sees there.
TEST_F(TestShares, ABatchHasItsNumberWhoeverScoresIt) {
  const std::string noise =
      "layer { name: 'n' type: 'DummyData' top: 'n' dummy_data_param { shape { dim: 4 } "
      "data_filler { type: 'gaussian' std: 1 } } }";
  NetOptions options;
  options.state.phase = Phase::kTest;
  Diagnostics diagnostics;
  const ParamNode node = parse_prototxt(noise, "noise.prototxt", diagnostics);
  Net net(node, options);
  TestPlan plan;
  plan.batches = 5;
  check(net, plan);
}

// A batch with fewer items gives an output with fewer values; each has its own weight.
TEST_F(TestShares, OutputsOfAValueAnItemKeepTheirWeights) {
  const std::string reads = data_layer(folder_, "test", 3, "TEST") +
                            "layer { name: 'quiet' type: 'Silence' bottom: 'data' }";
  NetOptions options;
  options.state.phase = Phase::kTest;
  Diagnostics diagnostics;
  const ParamNode node = parse_prototxt(reads, "reads.prototxt", diagnostics);
  Net net(node, options);
  ASSERT_EQ(run_test_pass(net, {}, test_context(), nullptr)->outputs.size(), 3u);
  check(net, {});
}

TEST_F(TestShares, AWishToStopEndsAShare) {
  const auto run = solver(1);
  int asked = 0;
  const auto stop = [&asked] { return ++asked > 2; };
  EXPECT_FALSE(score_share(run->solver->test_net(0), {}, {1, 2}, test_context(), stop));
  EXPECT_EQ(asked, 3);
}

TEST_F(TestShares, NumbersThatEndTooEarlyAreRefused) {
  const auto run = solver(2);
  std::vector<double> numbers;
  score_share(run->solver->test_net(0), {}, {}, test_context(), nullptr)->pack(numbers);
  for (size_t length = 0; length < numbers.size(); ++length) {
    std::span<const double> cut(numbers.data(), length);
    EXPECT_THROW(TestSums::unpack(cut), Error) << length;
  }
}

}  // namespace
}  // namespace kinet
