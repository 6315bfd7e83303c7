// ctest: labels=unit,core timeout=60
//
// What a pass tells and asks while it runs: every gradient is told once and final, a pass that is
// cut short leaves the net as good as new.
#include "src/net/pass_hook.h"

#include <algorithm>
#include <cmath>

#include "tests/net_test_util.h"

namespace kinet::test {
namespace {

const std::string kInput =
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param { "
    "shape { dim: 4 dim: 1 dim: 12 dim: 12 } shape { dim: 4 } } }";

std::string conv(const std::string& name, const std::string& bottom, const std::string& more = "") {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
         "' " + more +
         " convolution_param { num_output: 3 kernel_size: 3 pad: 1 "
         "weight_filler { type: 'xavier' } } }";
}

std::string ip(const std::string& name, const std::string& bottom, int outputs,
               const std::string& more = "") {
  return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" +
         name + "' " + more + " inner_product_param { num_output: " + std::to_string(outputs) +
         " weight_filler { type: 'xavier' } } }";
}

const std::string kLoss =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }";

std::string relu(const std::string& blob) {
  return "layer { name: 'relu_" + blob + "' type: 'ReLU' bottom: '" + blob + "' top: '" + blob +
         "' }";
}

const std::string kLenet = kInput + conv("conv1", "data") + relu("conv1") + conv("conv2", "conv1") +
                           ip("ip1", "conv2", 5) + relu("ip1") + ip("ip2", "ip1", 3) + kLoss;

void fill_inputs(Net& net, uint64_t seed = 5) {
  randomize(*net.blob("data"), seed);
  Tensor& label = *net.blob("label");
  for (int64_t i = 0; i < label.count(); ++i) label.data()[i] = static_cast<float>(i % 3);
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

// Takes each range as it is told; may end the pass at the n-th question.
class Recorder : public PassHook {
 public:
  explicit Recorder(Net& net) : net_(net), seen_(net.gradient_arena().size(), NAN) {}

  bool go_on() override { return ++asked != end_at; }
  void gradients_final(size_t from, size_t to) override {
    ASSERT_LT(from, to);
    ASSERT_LE(to, seen_.size());
    for (size_t i = from; i < to; ++i) {
      EXPECT_TRUE(std::isnan(seen_[i])) << "float " << i << " is told twice";
      seen_[i] = net_.gradient_arena()[i];
    }
    ranges.emplace_back(from, to);
  }
  const std::vector<float>& seen() const { return seen_; }

  int asked = 0, end_at = -1;
  std::vector<std::pair<size_t, size_t>> ranges;

 private:
  Net& net_;
  std::vector<float> seen_;
};

// Every float once, with its last value, which is that of a pass without a hook.
Recorder check_ranges(const std::string& text) {
  const auto net = make_net(text);
  fill_inputs(*net);
  net->zero_gradients();
  const double loss = net->forward(Context{});
  net->backward(Context{});
  const std::vector<float> expected = copy(net->gradient_arena());

  net->zero_gradients();
  Recorder recorder(*net);
  EXPECT_EQ(net->forward(Context{}, &recorder), loss);
  EXPECT_TRUE(recorder.ranges.empty());
  EXPECT_TRUE(net->backward(Context{}, &recorder));
  EXPECT_EQ(copy(net->gradient_arena()), expected);
  EXPECT_EQ(recorder.seen(), expected);  // a float that was not told is NaN, equal to nothing
  return recorder;
}

TEST(PassHook, EveryGradientIsToldOnceAndFinal) {
  const Recorder r = check_ranges(kLenet);
  ASSERT_EQ(r.ranges.size(), 4U);  // a range a layer, from the end of the arena
  for (size_t i = 1; i < r.ranges.size(); ++i) EXPECT_EQ(r.ranges[i].second, r.ranges[i - 1].first);
  EXPECT_EQ(r.ranges.back().first, 0U);
}

// ip1 and ip2b have the same weights: they are final only after ip1, the earlier layer.
TEST(PassHook, SharedParametersAreFinalAfterTheFirstLayerThatUsesThem) {
  const std::string w = "param { name: 'w' } param { name: 'b' }";
  const Recorder r =
      check_ranges(kInput + conv("conv1", "data") + ip("ip0", "conv1", 6) + ip("ip1", "ip0", 6, w) +
                   relu("ip1") + ip("ip1b", "ip1", 6, w) + ip("ip2", "ip1b", 3) + kLoss);
  EXPECT_EQ(r.ranges.size(), 4U);
}

// The owner of the shared parameter does not run backward, a later layer does.
TEST(PassHook, LayersThatDoNotRunBackwardAreAllowedFor) {
  const std::string frozen = "param { lr_mult: 0 } param { lr_mult: 0 }";
  check_ranges(kInput + conv("conv1", "data", frozen) + ip("ip1", "conv1", 5) +
               ip("ip2", "ip1", 3, frozen) + kLoss);
  const std::string w = "param { name: 'w' } param { name: 'b' }";
  const std::string silence = "layer { name: 'quiet' type: 'Silence' bottom: 'ipa' }";
  const Recorder r = check_ranges(kInput + conv("conv1", "data") + ip("ipa", "data", 5, w) +
                                  ip("ip1", "data", 5, w) + ip("ip2", "ip1", 3) + silence +
                                  "layer { name: 'q2' type: 'Silence' bottom: 'conv1' }" + kLoss);
  EXPECT_EQ(r.ranges.size(), 2U);
}

TEST(PassHook, MoreThanOnePassAddsUp) {
  const auto net = make_net(kLenet);
  fill_inputs(*net);
  net->zero_gradients();
  Recorder recorder(*net);
  GoOnOnly first(&recorder);
  for (PassHook* hook : {static_cast<PassHook*>(&first), static_cast<PassHook*>(&recorder)}) {
    net->forward(Context{}, hook);
    EXPECT_TRUE(recorder.ranges.empty());
    EXPECT_TRUE(net->backward(Context{}, hook));
  }
  EXPECT_EQ(recorder.seen(), copy(net->gradient_arena()));
  EXPECT_TRUE(GoOnOnly(nullptr).go_on());
}

// Wherever a pass is cut short, the next one gives what the first would have given.
TEST(PassHook, ACancelledPassLeavesTheNetUsable) {
  const auto net = make_net(kLenet);
  fill_inputs(*net);
  net->zero_gradients();
  Recorder all(*net);
  const auto loss = net->forward(Context{}, &all);
  ASSERT_TRUE(net->backward(Context{}, &all));
  const std::vector<float> expected = copy(net->gradient_arena());
  ASSERT_EQ(all.asked, net->layer_count() + 7);  // 7 of the 8 run backward
  for (int end = 1; end <= all.asked; ++end) {
    net->zero_gradients();
    Recorder cut(*net);
    cut.end_at = end;
    const auto cut_loss = net->forward(Context{}, &cut);
    EXPECT_EQ(cut_loss.has_value(), end > net->layer_count());
    if (cut_loss) {
      EXPECT_FALSE(net->backward(Context{}, &cut));
    }
    EXPECT_EQ(cut.asked, end);
    net->zero_gradients();
    EXPECT_EQ(net->forward(Context{}), *loss);
    net->backward(Context{});
    EXPECT_EQ(copy(net->gradient_arena()), expected);
  }
}

}  // namespace
}  // namespace kinet::test
