// Nets: wiring errors, who gets gradients, loss weights, shared parameters, changing shapes, test
// nets bound to training nets.
#include <cmath>
#include <limits>

#include "tests/net_test_util.h"

namespace kinet::test {
namespace {

std::string input(const std::string& shapes) {
  return "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param { " + shapes +
         " } }";
}

const std::string kInput = input("shape { dim: 4 dim: 3 dim: 5 dim: 5 } shape { dim: 4 }");

std::string ip(const std::string& name, const std::string& bottom, const std::string& top,
               const std::string& more = "") {
  return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + top +
         "' " + more +
         " inner_product_param { num_output: 3 weight_filler { type: 'gaussian' std: 0.3 } "
         "bias_filler { type: 'constant' value: 0.1 } } }";
}

std::string softmax_loss(const std::string& bottom, const std::string& more = "") {
  return "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: '" + bottom +
         "' bottom: 'label' top: 'loss' " + more + " }";
}

// Fills data and labels and runs one pass.
double run(Net& net, const std::string& data = "data") {
  randomize(*net.blob(data), 5);
  Tensor& label = *net.blob("label");
  for (int64_t i = 0; i < label.count(); ++i) label.data()[i] = static_cast<float>(i % 3);
  const double loss = net.forward(Context{});
  net.zero_gradients();
  net.backward(Context{});
  return loss;
}

std::vector<float> gradients(Net& net) {
  return {net.gradient_arena().begin(), net.gradient_arena().end()};
}

TEST(NetWiring, ErrorsNameLayerAndPlace) {
  const std::string unknown = error_of([] { make_net(kInput + "\n" + ip("ip", "dat", "ip")); });
  EXPECT_HAS(unknown, "test.prototxt:2:");
  EXPECT_HAS(unknown, "layer 'ip' (InnerProduct): bottom 'dat' is not made by any layer before");
  EXPECT_HAS(unknown, "did you mean 'data'?");
  EXPECT_HAS(error_of([] { make_net(kInput + ip("a", "data", "x") + ip("b", "data", "x")); }),
             "top 'x' is made by layer 'a' already");
  EXPECT_HAS(error_of([] { make_net(kInput + ip("a", "data", "x") + ip("a", "data", "y")); }),
             "another layer with parameters has the same name");
  EXPECT_HAS(
      error_of([] { make_net(kInput + ip("a", "data", "x", "param {} param {} param {}")); }),
      "3 param entries");
  EXPECT_HAS(error_of([] {
               make_net(kInput + "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'data' }");
             }),
             "has 1 bottom but takes");
}

TEST(NetWiring, WhatALayerSaysOfItsShapesGetsItsPlace) {
  const std::string error = error_of([] {
    make_net(kInput +
             "\nlayer { name: 'c' type: 'Concat' bottom: 'data' top: 'c' concat_param { "
             "axis: 7 } }");
  });
  EXPECT_EQ(error.rfind("test.prototxt:2:", 0), 0u) << error;
  EXPECT_HAS(error, "layer 'c'");
}

TEST(NetWiring, EveryLayerThatCannotBeSetUpIsReported) {
  const std::string error = error_of([] {
    make_net(kInput + "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' }" +
             "layer { name: 'reader' type: 'ReLU' bottom: 'c' top: 'r' }" +
             "layer { name: 'p' type: 'Pooling' bottom: 'data' top: 'p' pooling_param { "
             "kernel_size: 0 } }" +
             ip("a", "data", "x") + ip("a", "data", "y"));
  });
  EXPECT_HAS(error, "layer 'c' (Convolution)");
  EXPECT_HAS(error, "layer 'p' (Pooling)");
  EXPECT_HAS(error, "layer 'a' (InnerProduct): another layer with parameters");
  EXPECT_EQ(error.find("'reader'"), std::string::npos) << "a consequence, not a fault";
}

TEST(NetLookup, ByName) {
  const auto net = make_net(kInput + ip("ip", "data", "y") + softmax_loss("y"));
  EXPECT_NE(net->blob("y"), nullptr);
  EXPECT_EQ(net->blob("z"), nullptr);
  EXPECT_EQ(net->layer(net->layer_index("ip")).type().type, "InnerProduct");
  EXPECT_EQ(net->layer_index("nobody"), -1);
  ASSERT_EQ(net->outputs().size(), 1u);
  EXPECT_EQ(net->outputs()[0].name, "loss");
  EXPECT_EQ(net->outputs()[0].loss_weight, 1);
  EXPECT_EQ(net->parameter_count(), 3 * 75 + 3);
}

TEST(NetGradient, DataGetsNoneUnlessForced) {
  const std::string body = ip("ip1", "data", "a") + ip("ip2", "a", "b") + softmax_loss("b");
  const auto plain = make_net(kInput + body);
  run(*plain);
  EXPECT_FALSE(plain->blob("data")->has_diff());
  EXPECT_TRUE(plain->blob("a")->has_diff());
  const auto forced = make_net("force_backward: true " + kInput + body);
  run(*forced);
  ASSERT_TRUE(forced->blob("data")->has_diff());
  EXPECT_FALSE(forced->blob("label")->has_diff());
  double sum = 0;
  for (int i = 0; i < 300; ++i) sum += std::abs(forced->blob("data")->diff()[i]);
  EXPECT_GT(sum, 0);
}

TEST(NetGradient, PropagateDownFalseCutsTheBranch) {
  const std::string body =
      ip("ip1", "data", "a") + ip("ip2", "a", "b", "propagate_down: false") + softmax_loss("b");
  const auto net = make_net(kInput + body);
  run(*net);
  EXPECT_FALSE(net->layer_runs_backward(net->layer_index("ip1")));
  EXPECT_TRUE(net->layer_runs_backward(net->layer_index("ip2")));
  EXPECT_HAS(error_of([&] {
               make_net(kInput + ip("ip1", "data", "a") +
                        softmax_loss("a", "propagate_down: true propagate_down: true"));
             }),
             "which this layer cannot give");
}

TEST(NetGradient, LrMultZeroFreezesOnlyThatParameter) {
  const std::string frozen = "param { lr_mult: 0 } param { lr_mult: 1 }";
  auto all = make_net(kInput + ip("ip", "data", "y") + softmax_loss("y"));
  auto some = make_net(kInput + ip("ip", "data", "y", frozen) + softmax_loss("y"));
  run(*all), run(*some);
  const size_t weights = some->parameters()[0].count, bias = some->parameters()[1].offset;
  for (size_t i = 0; i < weights; ++i) ASSERT_EQ(some->gradient_arena()[i], 0);
  for (size_t i = bias; i < bias + 3; ++i) {
    EXPECT_EQ(some->gradient_arena()[i], all->gradient_arena()[i]);
  }
}

TEST(NetLoss, WeightScalesLossAndEveryGradient) {
  auto one = make_net(kInput + ip("ip", "data", "y") + softmax_loss("y"));
  auto two = make_net(kInput + ip("ip", "data", "y") + softmax_loss("y", "loss_weight: 2.5"));
  EXPECT_NEAR(run(*two), 2.5 * run(*one), 1e-5);
  for (size_t i = 0; i < one->gradient_arena().size(); ++i) {
    EXPECT_NEAR(two->gradient_arena()[i], 2.5 * one->gradient_arena()[i], 1e-5);
  }
}

TEST(NetLoss, MidNetWeightLeavesLaterParametersAlone) {
  const auto body = [](const std::string& weight) {
    return kInput + ip("ip1", "data", "a", weight) + ip("ip2", "a", "b") + softmax_loss("b");
  };
  auto plain = make_net(body("")), weighted = make_net(body("loss_weight: 0.5"));
  const double loss = run(*plain), more = run(*weighted);
  EXPECT_NE(loss, more);
  const auto a = gradients(*plain), b = gradients(*weighted);
  const size_t later = plain->parameters()[2].offset;
  EXPECT_EQ(std::vector<float>(a.begin() + later, a.end()),
            std::vector<float>(b.begin() + later, b.end()));
  EXPECT_NE(a[0], b[0]);
}

TEST(NetLoss, AccuracyAndAZeroWeightLossDoNotDisturbTraining) {
  const std::string extra =
      "layer { name: 'acc' type: 'Accuracy' bottom: 'y' bottom: 'label' top: 'acc' }"
      "layer { name: 'loss0' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss0' "
      "loss_weight: 0 }";
  auto plain = make_net(kInput + ip("ip", "data", "y") + softmax_loss("y"));
  auto more = make_net(kInput + ip("ip", "data", "y") + softmax_loss("y") + extra);
  run(*plain), run(*more);
  EXPECT_EQ(gradients(*plain), gradients(*more));
}

TEST(NetSharing, OneParameterOneGradientSummed) {
  const std::string w = "param { name: 'w' } param { name: 'b' }";
  const std::string two =
      input("shape { dim: 4 dim: 3 } shape { dim: 4 }") +
      "layer { name: 'in2' type: 'Input' top: 'data2' input_param { shape { dim: 4 dim: 3 } } }" +
      ip("ip1", "data", "a", w) + ip("ip2", "data2", "b", w) +
      "layer { name: 'l' type: 'EuclideanLoss' bottom: 'a' bottom: 'b' top: 'l' }"
      "layer { name: 's' type: 'Silence' bottom: 'label' }";
  auto net = make_net(two);
  EXPECT_EQ(net->parameters().size(), 2u);
  EXPECT_EQ(net->layer(net->layer_index("ip1")).blobs()[0].data(),
            net->layer(net->layer_index("ip2")).blobs()[0].data());
  randomize(*net->blob("data"), 1), randomize(*net->blob("data2"), 1);
  EXPECT_EQ(net->forward(Context{}), 0);  // same input, same weights
  randomize(*net->blob("data2"), 2);
  EXPECT_GT(net->forward(Context{}), 0);
  net->zero_gradients();
  net->backward(Context{});
  double bias = 0;  // d/db of |Wx1 + b - Wx2 - b|^2 is zero: the owners' parts cancel
  for (int i = 0; i < 3; ++i)
    bias += std::abs(net->gradient_arena()[net->parameters()[1].offset + i]);
  EXPECT_NEAR(bias, 0, 1e-5);
}

TEST(NetSharing, ShapesAndMultipliersMustAgree) {
  const std::string other =
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'data' top: 'b' param { name: 'w' } "
      "inner_product_param { num_output: 4 } }";
  const std::string error =
      error_of([&] { make_net(kInput + ip("ip1", "data", "a", "param { name: 'w' }") + other); });
  EXPECT_HAS(error, "parameter 'w' is 4x75 here but 3x75 in layer 'ip1'");
  EXPECT_HAS(error_of([&] {
               make_net(kInput + ip("ip1", "data", "a", "param { name: 'w' lr_mult: 2 }") +
                        ip("ip2", "data", "b", "param { name: 'w' lr_mult: 3 }"));
             }),
             "lr_mult 3 of the shared parameter 'w' differs from 2");
}

TEST(NetShapes, SameInputSameOutputAfterOtherSizes) {
  const std::string body =
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 3 dim: 12 "
      "dim: 10 } } }"
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { "
      "num_output: 4 kernel_size: 3 weight_filler { type: 'xavier' } } }"
      "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
      "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p' pooling_param { kernel_size: 2 "
      "stride: 2 } }";
  auto net = make_net(body);
  const auto output = [&](const Shape& shape) {
    net->blob("data")->resize(shape);
    randomize(*net->blob("data"), 9);
    net->forward(Context{});
    const Tensor& p = *net->blob("p");
    return std::vector<float>(p.data(), p.data() + p.count());
  };
  const auto first = output({2, 3, 12, 10});
  EXPECT_EQ(net->blob("p")->shape(), (Shape{2, 4, 5, 4}));
  output({4, 3, 9, 11});
  EXPECT_EQ(net->blob("p")->shape(), (Shape{4, 4, 4, 5}));
  EXPECT_EQ(output({2, 3, 12, 10}), first);
}

TEST(NetTestNet, SharesTheTrainingParameters) {
  const std::string body = kInput + ip("ip", "data", "y") + softmax_loss("y");
  auto train = make_net(body);
  auto test = make_net(body, Phase::kTest, train.get(), 7);
  EXPECT_EQ(test->layer(test->layer_index("ip")).blobs()[0].data(),
            train->layer(train->layer_index("ip")).blobs()[0].data());
  EXPECT_TRUE(test->parameters().empty());
  const std::string wider = kInput +
                            "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'y' "
                            "inner_product_param { num_output: 7 } }";
  EXPECT_HAS(error_of([&] { make_net(wider, Phase::kTest, train.get()); }),
             "blob 0 is 7x75 here but 3x75 in the training net");
}

TEST(NetFault, NamesTheFirstLayerThatIsNotFinite) {
  auto net = make_net(kInput + ip("ip1", "data", "a") + ip("ip2", "a", "b") + softmax_loss("b"));
  run(*net);
  EXPECT_EQ(net->find_non_finite(Context{}), "");
  net->layer(net->layer_index("ip2")).blobs()[0].data()[0] = std::numeric_limits<float>::infinity();
  EXPECT_HAS(net->find_non_finite(Context{}), "layer 'ip2' (InnerProduct): its parameters");
}

TEST(NetSeeds, SameSeedSameParametersOtherSeedOthers) {
  const std::string body = kInput + ip("ip", "data", "y") + softmax_loss("y");
  const auto values = [&](uint64_t seed) {
    auto net = make_net(body, Phase::kTrain, nullptr, seed);
    return std::vector<float>(net->parameter_arena().begin(), net->parameter_arena().end());
  };
  EXPECT_EQ(values(1), values(1));
  EXPECT_NE(values(1), values(2));
}

}  // namespace
}  // namespace kinet::test
