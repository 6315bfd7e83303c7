// ctest: labels=unit,core timeout=120 device
// ReLU computed by the layer before it (net_fusion.cc): the bits of the two layers by themselves,
// and only where nobody can see the difference.
#include <cmath>
#include <cstring>

#include "tests/cuda/device_under_test.h"
#include "tests/net_test_util.h"

namespace kinet::test {
namespace {

const std::string kInput =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 3 dim: 6 dim: 9 "
    "dim: 8 } } }\n";

std::string conv(const std::string& fields, const std::string& more = "") {
  return "layer { name: 'x' type: 'Convolution' bottom: 'data' top: 'x' " + more +
         " convolution_param { weight_filler { type: 'xavier' } bias_filler { type: 'gaussian' "
         "std: "
         "1 } " +
         fields + " } }\n";
}
std::string inner(const std::string& fields) {
  return "layer { name: 'x' type: 'InnerProduct' bottom: 'data' top: 'x' inner_product_param { "
         "weight_filler { type: 'xavier' } bias_filler { type: 'gaussian' std: 1 } " +
         fields + " } }\n";
}
std::string relu(const std::string& top, const std::string& fields = "") {
  return "layer { name: 'relu' type: 'ReLU' bottom: 'x' top: '" + top + "' " + fields + " }\n";
}
// Everything a pass leaves.
struct Pass {
  std::vector<float> y, dx, gradients;
};

class CudaFusion : public DeviceTest {
 protected:
  std::unique_ptr<Net> make(const std::string& text, bool on_device = true) const {
    NetOptions options;
    if (on_device) options.device = device_;
    return std::make_unique<Net>(parse_net("force_backward: true\n" + text), options);
  }

  static std::vector<float> host_values(Tensor& tensor, bool diff) {
    const auto& buffer = diff ? tensor.diff_buffer() : tensor.data_buffer();
    buffer->to_host();
    return {buffer->data(), buffer->data() + tensor.count()};
  }

  // `y`: the ReLU's top. Its layer is the last; the gradient of y is the layer's loss weight.
  static Pass run(Net& net, const std::string& y) {
    randomize(*net.blob("data"), 7);
    net.blob("data")->data()[3] = -INFINITY;
    net.blob("data")->data()[200] = NAN;
    net.zero_gradients();
    net.forward(Context{});
    net.backward(Context{});
    const std::span<const float> gradients = net.gradient_arena();
    return {host_values(*net.blob(y), false),
            host_values(*net.blob("data"), true),
            {gradients.begin(), gradients.end()}};
  }
};

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0)
        << what << " " << i << ": " << a[i] << " and " << b[i];
  }
}

TEST_F(CudaFusion, GivesTheBitsOfTwoLayers) {
  const std::string weight = "loss_weight: 0.5";
  for (const std::string& maker :
       {conv("num_output: 10 kernel_size: 3 pad: 1 engine: CUDNN"),
        conv("num_output: 7 kernel_size: 3 stride: 2 engine: CUDNN bias_term: false"),
        conv("num_output: 8 kernel_size: 3 engine: CUDNN gpu_math: BF16"),
        conv("num_output: 10 kernel_size: 3 pad: 1 group: 2 engine: CAFFE"),
        conv("num_output: 9 kernel_size: 1"), conv("num_output: 9 kernel_size: 1 bias_term: false"),
        conv("num_output: 12 kernel_size: 3 group: 6"),
        conv("num_output: 12 kernel_size: 3 group: 6 bias_term: false"), inner("num_output: 11"),
        inner("num_output: 11 bias_term: false"), inner("num_output: 5 transpose: true")}) {
    for (const std::string& order : thread_orders()) {
      SCOPED_TRACE(maker + "order " + order);
      use_thread_order(order);
      const auto fused = make(kInput + maker + relu("x", weight));
      const auto two = make(kInput + maker + relu("y", weight));
      ASSERT_EQ(fused->fused_into(2), 1);
      ASSERT_EQ(two->fused_into(2), -1);
      const Pass a = run(*fused, "x"), b = run(*two, "y");
      expect_same_bits(a.y, b.y, "y");
      expect_same_bits(a.dx, b.dx, "dx");
      expect_same_bits(a.gradients, b.gradients, "gradient");
      EXPECT_GT(std::count(a.y.begin(), a.y.end(), 0.0F), 0);  // some are cut off
      EXPECT_TRUE(std::any_of(a.y.begin(), a.y.end(), [](float v) { return v > 0; }));
      EXPECT_TRUE(std::any_of(a.y.begin(), a.y.end(), [](float v) { return std::isnan(v); }));
      ASSERT_EQ(device_reports(), "");
    }
  }
}

TEST_F(CudaFusion, IsToldAndTheReluRunsNoKernel) {
  const auto net = make(kInput + conv("num_output: 4 kernel_size: 3") + relu("x"));
  EXPECT_EQ(net->notes().back(),
            "the GPU computes these ReLUs as part of the layer before them: 'relu'");
  randomize(*net->blob("data"), 7);
  net->forward_layer(Context{}, 1);
#ifndef KINET_TEST_ON_GPU
  const int64_t launches = emulation::counters().launches;
  net->forward_layer(Context{}, 2);
  EXPECT_EQ(emulation::counters().launches, launches);
#endif
}

// Whether the layer 'relu' of the net is computed by another layer.
bool is_fused(const Net& net) { return net.fused_into(net.layer_index("relu")) >= 0; }

TEST_F(CudaFusion, OnlyWhereNobodyCanSeeIt) {
  const std::string maker = conv("num_output: 4 kernel_size: 3");
  EXPECT_TRUE(is_fused(*make(kInput + maker + relu("x"))));
  EXPECT_FALSE(is_fused(*make(kInput + maker + relu("x"), false))) << "on the CPU";
  EXPECT_FALSE(is_fused(*make(kInput + maker + relu("y")))) << "not in place";
  EXPECT_FALSE(is_fused(*make(kInput + maker + relu("x", "relu_param { negative_slope: 0.1 }"))));
  EXPECT_FALSE(
      is_fused(*make(kInput + conv("num_output: 4 kernel_size: 3", "loss_weight: 1") + relu("x"))))
      << "x is part of the loss";
  const std::string other =
      "layer { name: 'other' type: 'TanH' bottom: 'x' top: 'other' }\n";  // reads x: a Split
  EXPECT_FALSE(is_fused(*make(kInput + maker + other + relu("x"))));
  EXPECT_TRUE(is_fused(*make(kInput + maker + relu("x") + other)));
  for (const char* type : {"LRN", "BatchNorm", "Bias"}) {
    const std::string before =
        std::string("layer { name: 'x' type: '") + type + "' bottom: 'data' top: 'x' }\n";
    EXPECT_FALSE(is_fused(*make(kInput + before + relu("x")))) << type;
  }
  const std::string two_tops =
      "layer { name: 'x' type: 'Convolution' bottom: 'data' bottom: 'data' top: 'x' top: 'z' "
      "convolution_param { num_output: 4 kernel_size: 3 } }\n";
  EXPECT_FALSE(is_fused(*make(kInput + two_tops + relu("x"))));
}

// The first layer that is not finite is still the one that makes it so.
TEST_F(CudaFusion, WhatIsNotFiniteIsFoundWhereItArises) {
  const auto net = make(kInput + conv("num_output: 4 kernel_size: 3") + relu("x"));
  randomize(*net->blob("data"), 7);
  net->parameter_arena()[0] = 3e38F;
  net->parameter_arena()[1] = 3e38F;
  for (int64_t i = 0; i < net->blob("data")->count(); ++i) net->blob("data")->data()[i] = -9;
  EXPECT_HAS(net->find_non_finite(Context{}), "layer 'x' (Convolution): its output 'x'");
}

}  // namespace
}  // namespace kinet::test
