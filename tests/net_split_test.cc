// Split layers: where they are inserted and what they are called.
#include "src/net/split.h"
#include "tests/net_test_util.h"

namespace kinet::test {
namespace {

const char* const kData =
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' "
    "input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }";

std::string ip(const std::string& name, const std::string& bottom, const std::string& top) {
  return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + top +
         "' inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }";
}

std::string loss(const std::string& name, const std::string& bottom, const std::string& more = "") {
  return "layer { name: '" + name + "' type: 'SoftmaxWithLoss' bottom: '" + bottom +
         "' bottom: 'label' top: '" + name + "' " + more + " }";
}

NetSpec spec_of(const std::string& text) { return make_net_spec(parse_net(text), NetState{}); }

int splits(const NetSpec& spec) {
  int n = 0;
  for (const LayerSpec& layer : spec.layers) n += layer.type == "Split";
  return n;
}

TEST(Split, NoneWhereNothingIsReadTwice) {
  EXPECT_EQ(splits(spec_of(kData + ip("ip", "data", "ip") + loss("loss", "ip"))), 0);
}

TEST(Split, NoneForAnInPlaceChain) {
  const std::string relu = "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }";
  EXPECT_EQ(splits(spec_of(kData + ip("ip", "data", "ip") + relu + loss("loss", "ip"))), 0);
}

TEST(Split, TwoReadersGetOneTopEach) {
  const NetSpec spec = spec_of(kData + ip("ip1", "data", "a") + ip("ip2", "data", "b") +
                               loss("l1", "a") + loss("l2", "b"));
  ASSERT_EQ(splits(spec), 2);  // data, label
  EXPECT_EQ(spec.layers[1].name, "data_data_0_split");
  EXPECT_EQ(spec.layers[1].tops,
            (std::vector<std::string>{"data_data_0_split_0", "data_data_0_split_1"}));
  EXPECT_EQ(spec.layers[2].name, "label_data_1_split");
  EXPECT_EQ(spec.layers[3].bottoms[0], "data_data_0_split_0");
  EXPECT_EQ(spec.layers[4].bottoms[0], "data_data_0_split_1");
}

TEST(Split, InPlaceVersionHasReadersOfItsOwn) {
  const std::string relu = "layer { name: 'relu' type: 'ReLU' bottom: 'a' top: 'a' }";
  const NetSpec spec =
      spec_of(kData + ip("ip1", "data", "a") + relu + ip("ip2", "a", "b") + ip("ip3", "a", "c") +
              loss("l1", "b") + "layer { name: 's' type: 'Silence' bottom: 'c' }");
  ASSERT_EQ(splits(spec), 1);
  EXPECT_EQ(spec.layers[3].name, "a_relu_0_split");
  EXPECT_EQ(spec.layers[4].bottoms[0], "a_relu_0_split_0");
}

TEST(Split, ALossWeightCountsAsAReader) {
  const std::string weighted =
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' loss_weight: 2 "
      "inner_product_param { num_output: 3 } }";
  const NetSpec spec = spec_of(kData + weighted + loss("loss", "ip"));
  ASSERT_EQ(splits(spec), 1);
  EXPECT_EQ(spec.layers[1].loss_weights, std::vector<float>{0});
  EXPECT_EQ(spec.layers[2].loss_weights, (std::vector<float>{2, 0}));
  EXPECT_EQ(spec.layers[3].bottoms[0], "ip_ip_0_split_1");
}

TEST(Split, Idempotent) {
  NetSpec spec = spec_of(kData + ip("ip1", "data", "a") + ip("ip2", "data", "b") + loss("l1", "a") +
                         loss("l2", "b"));
  const size_t layers = spec.layers.size();
  insert_splits(spec);
  EXPECT_EQ(spec.layers.size(), layers);
}

TEST(Split, GradientIsTheSumOverReaders) {
  // One blob read by two Euclidean losses against the same target: twice the gradient of one.
  const std::string net =
      "layer { name: 'data' type: 'Input' top: 'x' top: 't' "
      "input_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 3 } } }" +
      ip("ip", "x", "y");
  const std::string one =
      "layer { name: 'l1' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'l1' }";
  const std::string two =
      "layer { name: 'l2' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'l2' }";
  auto single = make_net(net + one), both = make_net(net + one + two);
  for (Net* n : {single.get(), both.get()}) {
    randomize(*n->blob("x"), 1);
    randomize(*n->blob("t"), 2);
    n->forward(Context{});
    n->backward(Context{});
  }
  for (size_t i = 0; i < single->gradient_arena().size(); ++i) {
    EXPECT_NEAR(both->gradient_arena()[i], 2 * single->gradient_arena()[i], 1e-5);
  }
}

}  // namespace
}  // namespace kinet::test
