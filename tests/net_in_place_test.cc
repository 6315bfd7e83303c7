// Layers written in place: the gradient must be what it is out of place, for every pair (producer,
// in-place layer); what cannot be shared is copied and noted, what Caffe refuses is refused.
#include <cmath>

#include "tests/net_test_util.h"

namespace kinet::test {
namespace {

struct Part {
  std::string type, param;
};

const std::vector<Part>& producers() {
  static const std::vector<Part> parts = {
      {"Convolution",
       "convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { "
       "type: 'gaussian' std: 0.3 } }"},
      {"Pooling", "pooling_param { kernel_size: 3 stride: 1 pad: 1 }"},
      {"ReLU", ""},
      {"Sigmoid", ""},
      {"TanH", ""},
      {"ELU", ""},
      {"PReLU", ""},
      {"LRN", "lrn_param { local_size: 3 }"},
      {"LRN", "lrn_param { local_size: 3 norm_region: WITHIN_CHANNEL }"},
      {"BatchNorm", ""},
      {"Scale", "scale_param { bias_term: true filler { type: 'gaussian' std: 1 } }"},
      {"Bias", ""},
      {"Dropout", ""},
      {"Softmax", ""},
      {"Split", ""},
      {"Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: 10 dim: 5 } }"},
      {"Flatten", "flatten_param { axis: 2 }"},
  };
  return parts;
}

const std::vector<Part>& in_place_layers() {
  static const std::vector<Part> parts = {
      {"ReLU", ""},
      {"ReLU", "relu_param { negative_slope: 0.1 }"},
      {"Sigmoid", ""},
      {"TanH", ""},
      {"ELU", ""},
      {"PReLU", ""},
      {"Dropout", ""},
      {"BatchNorm", ""},
      {"Scale", "scale_param { bias_term: true filler { type: 'gaussian' std: 1 } }"},
      {"Bias", ""},
      {"Softmax", ""},
      {"LRN", "lrn_param { local_size: 3 }"},
  };
  return parts;
}

std::string layer(const std::string& name, const Part& part, const std::string& bottom,
                  const std::string& top) {
  return "layer { name: '" + name + "' type: '" + part.type + "' bottom: '" + bottom + "' top: '" +
         top + "' " + part.param + " }\n";
}

// data -> conv0 (parameters that show the gradient) -> first -> second -> loss
std::string net(const Part& first, const Part& second, bool in_place) {
  return "layer { name: 'data' type: 'Input' top: 'data' top: 'target' input_param { "
         "shape { dim: 3 dim: 4 dim: 5 dim: 5 } shape { dim: 3 dim: 4 dim: 5 dim: 5 } } }\n" +
         layer("conv0", producers()[0], "data", "c") + layer("first", first, "c", "f") +
         layer("second", second, "f", in_place ? "f" : "s") +
         layer("flat", {"Flatten", ""}, in_place ? "f" : "s", "flat") +
         layer("flat_target", {"Flatten", ""}, "target", "flat_target") +
         "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'flat' bottom: 'flat_target' top: "
         "'loss' }";
}

std::vector<float> gradient(const std::string& text) {
  auto net = make_net(text);
  randomize(*net->blob("data"), 3);
  randomize(*net->blob("target"), 4);
  for (int pass = 0; pass < 2; ++pass) {  // the second pass meets memory that is not fresh
    net->forward(Context{});
    net->zero_gradients();
    net->backward(Context{});
  }
  return {net->gradient_arena().begin(), net->gradient_arena().end()};
}

TEST(InPlace, EveryPairGivesTheGradientOfTheNetOutOfPlace) {
  for (const Part& first : producers()) {
    for (const Part& second : in_place_layers()) {
      if (first.type == "Flatten" && second.type == "LRN") continue;  // LRN wants N x C x H x W
      const auto apart = gradient(net(first, second, false));
      const auto in_place = gradient(net(first, second, true));
      ASSERT_EQ(apart.size(), in_place.size());
      double scale = 0, worst = 0;
      for (size_t i = 0; i < apart.size(); ++i) {
        scale = std::max<double>(scale, std::abs(apart[i]));
        worst = std::max<double>(worst, std::abs(apart[i] - in_place[i]));
      }
      EXPECT_GT(scale, 0) << first.type << " then " << second.type;
      EXPECT_LE(worst, 1e-5 * scale) << first.type << " then in-place " << second.type;
    }
  }
}

TEST(InPlace, HarmlessOnesShareMemoryAndDamagingOnesAreNoted) {
  auto shared = make_net(net(producers()[0], {"ReLU", ""}, true));
  EXPECT_TRUE(shared->notes().empty());
  auto copied = make_net(net({"Sigmoid", ""}, {"ReLU", ""}, true));
  ASSERT_EQ(copied->notes().size(), 1u);
  EXPECT_HAS(copied->notes()[0], "layer 'second' is written in place on 'f' but runs on a copy");
  EXPECT_HAS(copied->notes()[0], "backward of layer 'first' reads it");
}

TEST(InPlace, ReshapeInPlaceIsRefused) {
  const std::string error = error_of([] {
    make_net(
        "layer { name: 'd' type: 'Input' top: 'd' input_param { shape { dim: 2 dim: 6 } } }"
        "layer { name: 'r' type: 'Reshape' bottom: 'd' top: 'd' reshape_param { shape { dim: 3 "
        "dim: 4 } } }");
  });
  EXPECT_HAS(error, "layer 'r' (Reshape) cannot run in place");
}

TEST(InPlace, InputThatTheCallerFilledIsKept) {
  auto net = make_net(
      "layer { name: 'd' type: 'Input' top: 'd' input_param { shape { dim: 4 } } }"
      "layer { name: 'r' type: 'Sigmoid' bottom: 'd' top: 'd' }");
  Tensor& input = *net->tops(0)[0];
  for (int i = 0; i < 4; ++i) input.data()[i] = 1;
  net->forward(Context{});
  net->forward(Context{});
  EXPECT_EQ(input.data()[0], 1);
  EXPECT_NEAR(net->blob("d")->data()[0], 0.7310586f, 1e-6);
}

TEST(InPlace, ABlobReadByTwoLayersOneOfThemInPlace) {
  const auto text = [](const std::string& relu_top) {
    return "layer { name: 'data' type: 'Input' top: 'data' top: 't' input_param { shape { dim: 3 "
           "dim: 4 } shape { dim: 3 dim: 4 } } }"
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'y' inner_product_param { "
           "num_output: 4 weight_filler { type: 'gaussian' std: 1 } } }"
           "layer { name: 'sig' type: 'Sigmoid' bottom: 'y' top: 'z' }"
           "layer { name: 'relu' type: 'ReLU' bottom: 'y' top: '" +
           relu_top +
           "' }"
           "layer { name: 'l1' type: 'EuclideanLoss' bottom: '" +
           relu_top +
           "' bottom: 't' top: 'l1' }"
           "layer { name: 'l2' type: 'EuclideanLoss' bottom: 'z' bottom: 't' top: 'l2' }";
  };
  const auto run = [](const std::string& net_text) {
    auto net = make_net(net_text);
    randomize(*net->blob("data"), 3), randomize(*net->blob("t"), 4);
    net->forward(Context{});
    net->backward(Context{});
    return std::vector<float>(net->gradient_arena().begin(), net->gradient_arena().end());
  };
  EXPECT_EQ(run(text("y")), run(text("r")));
}

}  // namespace
}  // namespace kinet::test
