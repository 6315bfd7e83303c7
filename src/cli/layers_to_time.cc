#include "src/cli/layers_to_time.h"

#include <fmt/format.h>

namespace kinet {
namespace {

LayerToTime conv(const std::string& name, const Shape& bottom, const std::string& fields) {
  return {name, "type: 'Convolution' convolution_param { " + fields + " }", {bottom}};
}

LayerToTime full(const std::string& name, const Shape& bottom, int outputs) {
  return {name,
          fmt::format("type: 'InnerProduct' inner_product_param {{ num_output: {} }}", outputs),
          {bottom}};
}

LayerToTime pool(const std::string& name, const Shape& bottom, const std::string& fields) {
  return {name, "type: 'Pooling' pooling_param { " + fields + " }", {bottom}};
}

LayerToTime plain(const std::string& name, const Shape& bottom, const std::string& type,
                  const std::string& fields = "") {
  return {name, "type: '" + type + "' " + fields, {bottom}};
}

LayerToTime loss(const std::string& name, int classes) {
  return {name, "type: 'SoftmaxWithLoss'", {{classes}, Shape{}}, true, true};
}

void add_small_nets(std::vector<LayerToTime>& cases) {
  cases.push_back(conv("lenet_conv1", {1, 28, 28}, "num_output: 20 kernel_size: 5"));
  cases.push_back(pool("lenet_pool1", {20, 24, 24}, "kernel_size: 2 stride: 2"));
  cases.push_back(conv("lenet_conv2", {20, 12, 12}, "num_output: 50 kernel_size: 5"));
  cases.push_back(full("lenet_ip1", {50, 4, 4}, 500));
  cases.push_back(plain("lenet_relu1", {500}, "ReLU"));
  cases.push_back(full("lenet_ip2", {500}, 10));
  cases.push_back(loss("lenet_loss", 10));
  cases.push_back(conv("cifar10_conv2", {32, 16, 16}, "num_output: 32 kernel_size: 5 pad: 2"));
  cases.push_back(pool("cifar10_pool_ave", {32, 32, 32}, "pool: AVE kernel_size: 3 stride: 2"));
  cases.push_back(plain("cifar10_norm1", {32, 16, 16}, "LRN",
                        "lrn_param { local_size: 3 norm_region: WITHIN_CHANNEL }"));
  cases.push_back(
      conv("resnet20_conv", {16, 32, 32}, "num_output: 16 kernel_size: 3 pad: 1 bias_term: false"));
  cases.push_back(plain("resnet20_bn", {16, 32, 32}, "BatchNorm"));
  cases.push_back(
      plain("resnet20_scale", {16, 32, 32}, "Scale", "scale_param { bias_term: true }"));
  cases.push_back({"resnet20_sum", "type: 'Eltwise'", {{16, 32, 32}, {16, 32, 32}}});
}

void add_alexnet_and_vgg(std::vector<LayerToTime>& cases) {
  cases.push_back(conv("alexnet_conv1", {3, 227, 227}, "num_output: 96 kernel_size: 11 stride: 4"));
  cases.push_back(plain("alexnet_norm1", {96, 55, 55}, "LRN", "lrn_param { alpha: 1e-4 }"));
  cases.push_back(pool("alexnet_pool1", {96, 55, 55}, "kernel_size: 3 stride: 2"));
  cases.push_back(
      conv("alexnet_conv2", {96, 27, 27}, "num_output: 256 kernel_size: 5 pad: 2 group: 2"));
  cases.push_back(conv("alexnet_conv3", {256, 13, 13}, "num_output: 384 kernel_size: 3 pad: 1"));
  cases.push_back(
      conv("alexnet_conv4", {384, 13, 13}, "num_output: 384 kernel_size: 3 pad: 1 group: 2"));
  cases.push_back(full("alexnet_fc6", {256, 6, 6}, 4096));
  cases.push_back(plain("alexnet_drop6", {4096}, "Dropout"));
  cases.push_back(full("alexnet_fc7", {4096}, 4096));
  cases.push_back(full("alexnet_fc8", {4096}, 1000));
  cases.push_back(loss("alexnet_loss", 1000));
  const std::string three = "kernel_size: 3 pad: 1 num_output: ";
  cases.push_back(conv("vgg16_conv1_1", {3, 224, 224}, three + "64"));
  cases.push_back(conv("vgg16_conv1_2", {64, 224, 224}, three + "64"));
  cases.push_back(plain("vgg16_relu1_2", {64, 224, 224}, "ReLU"));
  cases.push_back(pool("vgg16_pool1", {64, 224, 224}, "kernel_size: 2 stride: 2"));
  cases.push_back(conv("vgg16_conv2_2", {128, 112, 112}, three + "128"));
  cases.push_back(conv("vgg16_conv3_2", {256, 56, 56}, three + "256"));
  cases.push_back(conv("vgg16_conv4_2", {512, 28, 28}, three + "512"));
  cases.push_back(conv("vgg16_conv5_2", {512, 14, 14}, three + "512"));
  cases.push_back(full("vgg16_fc6", {512, 7, 7}, 4096));
}

void add_resnet50(std::vector<LayerToTime>& cases) {
  const auto block = [&](const std::string& name, const Shape& bottom, const std::string& fields) {
    cases.push_back(conv("resnet50_" + name, bottom, "bias_term: false " + fields));
  };
  block("conv1", {3, 224, 224}, "num_output: 64 kernel_size: 7 pad: 3 stride: 2");
  cases.push_back(plain("resnet50_bn_conv1", {64, 112, 112}, "BatchNorm"));
  cases.push_back(pool("resnet50_pool1", {64, 112, 112}, "kernel_size: 3 stride: 2"));
  block("2a_1x1", {64, 56, 56}, "num_output: 64 kernel_size: 1");
  block("2a_3x3", {64, 56, 56}, "num_output: 64 kernel_size: 3 pad: 1");
  block("2a_1x1_wide", {64, 56, 56}, "num_output: 256 kernel_size: 1");
  cases.push_back(plain("resnet50_2a_bn", {256, 56, 56}, "BatchNorm"));
  cases.push_back(
      plain("resnet50_2a_scale", {256, 56, 56}, "Scale", "scale_param { bias_term: true }"));
  cases.push_back({"resnet50_2a_sum", "type: 'Eltwise'", {{256, 56, 56}, {256, 56, 56}}});
  cases.push_back(plain("resnet50_2a_relu", {256, 56, 56}, "ReLU"));
  block("3a_1x1_stride2", {256, 56, 56}, "num_output: 128 kernel_size: 1 stride: 2");
  block("3a_3x3", {128, 28, 28}, "num_output: 128 kernel_size: 3 pad: 1");
  block("4a_3x3", {256, 14, 14}, "num_output: 256 kernel_size: 3 pad: 1");
  block("5a_3x3", {512, 7, 7}, "num_output: 512 kernel_size: 3 pad: 1");
  block("5b_1x1", {2048, 7, 7}, "num_output: 512 kernel_size: 1");
  cases.push_back(pool("resnet50_pool5", {2048, 7, 7}, "pool: AVE global_pooling: true"));
  cases.push_back(full("resnet50_fc1000", {2048}, 1000));
}

void add_others(std::vector<LayerToTime>& cases) {
  const Shape wide{256, 28, 28};
  cases.push_back(conv("depthwise_3x3", wide, "num_output: 256 kernel_size: 3 pad: 1 group: 256"));
  for (const char* type : {"Sigmoid", "TanH", "ELU", "PReLU"}) {
    cases.push_back(plain(fmt::format("other_{}", type), wide, type));
  }
  cases.push_back(plain("other_Softmax", {1000}, "Softmax"));
  cases.push_back({"inception_3a_concat",
                   "type: 'Concat'",
                   {{64, 28, 28}, {128, 28, 28}, {32, 28, 28}, {32, 28, 28}}});
}

}  // namespace

std::vector<LayerToTime> layers_to_time() {
  std::vector<LayerToTime> cases;
  for (const auto& add : {add_small_nets, add_alexnet_and_vgg, add_resnet50, add_others}) {
    add(cases);
  }
  return cases;
}

}  // namespace kinet
