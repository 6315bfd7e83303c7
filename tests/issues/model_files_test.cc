// What goes wrong in model files: typing errors, old and new forms mixed, old type names.
#include <gtest/gtest.h>

#include "src/base/check.h"
#include "src/net/net.h"
#include "tests/prototxt_helpers.h"

namespace kinet {
namespace {

using namespace prototxt_test;  // NOLINT: a test helper

std::string error_of(std::string_view text) {
  try {
    prepare_net(parse(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), 2);
    return error.what();
  }
  return "";
}

// One letter's case wrong in a type, and a field that does not exist: both are reported in one run,
// each with its place, its layer and the name that was meant.
TEST(ModelFiles, TypingErrorsInTypeAndField) {
  EXPECT_EQ(error_of("layer { name: \"data\" type: \"Input\" top: \"data\"\n"
                     "  input_param { shape { dim: [1, 1, 8, 8] } } }\n"
                     "layer { name: \"conv1\" type: \"Convolution\" bottom: \"data\" top: \"c\"\n"
                     "  convolution_param { num_output: 4 kernelsize: 3 }\n"
                     "}\n"
                     "layer { name: \"relu1\" type: \"Relu\" bottom: \"c\" top: \"c\" }\n"),
            "f:4:37: layer 'conv1' (Convolution), convolution_param: unknown field 'kernelsize' "
            "(did you mean 'kernel_size'?)\n"
            "f:6:29: layer 'relu1' (Relu): unknown layer type 'Relu' (did you mean 'ReLU'?)");
}

TEST(ModelFiles, TheOldestFormIsRefusedOnce) {
  const std::string error = error_of("layers { layer { name: \"a\" type: \"conv\" } top: \"a\" }");
  EXPECT_EQ(error.find("f:1:1: layers { layer { ... } } is the oldest form"), 0u) << error;
  EXPECT_EQ(error.find("no layers"), std::string::npos) << error;
}

// A middle layer in the old form was once dropped in silence: here it stays where it is.
TEST(ModelFiles, OldAndNewBlocksMixed) {
  const ParamNode net = prepare_net(parse(
      "layer { name: \"data\" type: \"Input\" top: \"data\" input_param { shape { dim: 2 } } }"
      "layers { name: \"relu\" type: RELU bottom: \"data\" top: \"r\" }"
      "layer { name: \"tanh\" type: \"TanH\" bottom: \"r\" top: \"t\" }"));
  const NetSpec spec = make_net_spec(net, NetState());
  ASSERT_EQ(spec.layers.size(), 3u);
  EXPECT_EQ(spec.layers[1].name, "relu");
  EXPECT_EQ(spec.layers[1].type, "ReLU");
}

constexpr std::string_view kOldLenet = R"(
layers { name: "data" type: DUMMY_DATA top: "data" top: "label"
  dummy_data_param {
    num: 4 channels: 1 height: 28 width: 28   num: 4 channels: 1 height: 1 width: 1
    data_filler { type: "gaussian" std: 1 } data_filler { value: 3 } } }
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1"
  blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0
  convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layers { name: "ip1" type: INNER_PRODUCT bottom: "pool1" top: "ip1" blobs_lr: 1 blobs_lr: 2
  inner_product_param { num_output: 50 weight_filler { type: "xavier" } } }
layers { name: "relu1" type: RELU bottom: "ip1" top: "ip1" }
layers { name: "ip2" type: "INNER_PRODUCT" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip2" bottom: "label" top: "loss" }
)";

constexpr std::string_view kNewLenet = R"(
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param {
    shape { dim: [4, 1, 28, 28] } shape { dim: [4, 1, 1, 1] }
    data_filler { type: "gaussian" std: 1 } data_filler { value: 3 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
  convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1"
  param { lr_mult: 1 } param { lr_mult: 2 }
  inner_product_param { num_output: 50 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
)";

// A V1 net is the same net as its new form: layers, multipliers, and the loss of the first pass.
TEST(ModelFiles, OldLenetEqualsTheNewOne) {
  Net old_net(prepare_net(parse(kOldLenet)), NetOptions());
  Net new_net(prepare_net(parse(kNewLenet)), NetOptions());
  ASSERT_EQ(old_net.layer_count(), new_net.layer_count());
  for (int i = 0; i < old_net.layer_count(); ++i) {
    EXPECT_EQ(old_net.layer(i).name(), new_net.layer(i).name());
    EXPECT_EQ(old_net.layer(i).type().type, new_net.layer(i).type().type);
  }
  ASSERT_EQ(old_net.parameters().size(), new_net.parameters().size());
  for (size_t i = 0; i < old_net.parameters().size(); ++i) {
    const ParameterInfo& a = old_net.parameters()[i];
    const ParameterInfo& b = new_net.parameters()[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.shape, b.shape);
    EXPECT_EQ(a.lr_mult, b.lr_mult);
    EXPECT_EQ(a.decay_mult, b.decay_mult);
  }
  EXPECT_EQ(old_net.parameters()[1].lr_mult, 2.0f);
  EXPECT_EQ(old_net.parameters()[1].decay_mult, 0.0f);
  const Context context;
  const double loss = old_net.forward(context);
  EXPECT_GT(loss, 0.0);
  EXPECT_EQ(loss, new_net.forward(context));
}

}  // namespace
}  // namespace kinet
