// Rows of the layer case table for a device: those of tests/layer_cases.h that do work there, and
// larger ones that reach what small shapes do not: 128-bit accesses and their tails, rows that
// several warps or blocks share, long classes, many terms.
#pragma once

#include <string>
#include <vector>

#include "tests/layer_cases.h"

namespace kinet {

inline std::vector<LayerCase> large_neuron_cases() {
  const CaseBottom four{{3, 8, 4, 16}, Values::kDistinct};  // planes of a multiple of 4
  const CaseBottom odd{{3, 7, 5, 11}, Values::kDistinct};   // nothing is
  const CaseBottom flat{{5, 36}, Values::kDistinct};        // no planes
  std::vector<LayerCase> rows;
  for (const CaseBottom& x : {four, odd, flat}) {
    for (const char* type : {"ReLU", "Sigmoid", "TanH", "ELU", "PReLU", "Dropout", "Split"}) {
      rows.push_back({.type = type, .bottoms = {x}, .tops = std::string(type) == "Split" ? 8 : 1});
    }
    rows.push_back({.type = "ELU", .body = "elu_param { alpha: -0.5 }", .bottoms = {x}});
    rows.push_back(
        {.type = "PReLU", .body = "prelu_param { channel_shared: true }", .bottoms = {x}});
    rows.push_back({.type = "Scale", .body = "scale_param { bias_term: true }", .bottoms = {x}});
    rows.push_back({.type = "Scale", .body = "scale_param { num_axes: 0 }", .bottoms = {x}});
    rows.push_back({.type = "Bias", .bottoms = {x}});
    rows.push_back({.type = "BatchNorm", .bottoms = {x}});
    rows.push_back({.type = "Eltwise", .bottoms = {x, x, x, x, x, x, x, x}});
    rows.push_back(
        {.type = "Eltwise", .body = "eltwise_param { operation: MAX }", .bottoms = {x, x, x}});
    rows.push_back({.type = "Eltwise",
                    .body = "eltwise_param { operation: MAX }",
                    .bottoms = {x, x, x, x, x, x, x, x}});
    rows.push_back(
        {.type = "Eltwise", .body = "eltwise_param { operation: PROD }", .bottoms = {x, x, x}});
  }
  rows.push_back({.type = "Split", .bottoms = {odd}, .tops = 1});
  rows.push_back({.type = "Bias", .bottoms = {{{2, 3, 40, 56}, Values::kGaussian}}});
  rows.push_back({.type = "BatchNorm", .bottoms = {{{2, 3, 40, 56}, Values::kGaussian}}});
  rows.push_back({.type = "BatchNorm", .bottoms = {{{33, 70}, Values::kGaussian}}});
  return rows;
}

inline std::vector<LayerCase> large_window_cases() {
  const CaseBottom x{{2, 3, 13, 17}, Values::kDistinct};
  const CaseBottom fours{{2, 3, 7, 12}, Values::kDistinct};  // rows of whole 128-bit accesses
  const auto pool = [](const std::string& fields) { return "pooling_param { " + fields + " }"; };
  return {
      {.type = "Pooling", .body = pool("kernel_size: 2 stride: 2"), .bottoms = {x}},
      {.type = "Pooling", .body = pool("kernel_size: 3 stride: 2 pad: 1"), .bottoms = {x}},
      {.type = "Pooling", .body = pool("kernel_size: 3 stride: 2"), .bottoms = {x}, .tops = 2},
      {.type = "Pooling", .body = pool("kernel_size: 2 stride: 4"), .bottoms = {x}},
      {.type = "Pooling",
       .body = pool("kernel_size: 3 stride: 2 round_mode: FLOOR"),
       .bottoms = {x}},
      {.type = "Pooling", .body = pool("global_pooling: true"), .bottoms = {x}},
      {.type = "Pooling",
       .body = pool("pool: AVE kernel_size: 3 stride: 2 pad: 1"),
       .bottoms = {x}},
      {.type = "Pooling",
       .body = pool("pool: AVE kernel_size: 5 stride: 3 pad: 2 exclude_padding: true"),
       .bottoms = {x}},
      {.type = "Pooling", .body = pool("pool: AVE kernel_size: 8 stride: 3"), .bottoms = {x}},
      {.type = "Pooling", .body = pool("pool: AVE global_pooling: true"), .bottoms = {x}},
      {.type = "Pooling", .body = pool("kernel_size: 2 stride: 2"), .bottoms = {fours}, .tops = 2},
      {.type = "Pooling",
       .body = pool("kernel_size: 2 stride: 2 round_mode: FLOOR"),
       .bottoms = {fours}},
      {.type = "Pooling", .body = pool("kernel_size: 3 stride: 2 pad: 1"), .bottoms = {fours}},
      {.type = "Pooling", .body = pool("kernel_size: 2 stride: 7"), .bottoms = {fours}},
      {.type = "Pooling",
       .body = pool("pool: AVE kernel_size: 3 stride: 2 pad: 1"),
       .bottoms = {fours}},
      {.type = "Pooling", .body = pool("pool: AVE kernel_size: 1 stride: 6"), .bottoms = {fours}},
      {.type = "LRN", .bottoms = {{{2, 19, 7, 6}}}},
      {.type = "LRN", .bottoms = {{{2, 19, 6, 6}}}},
      {.type = "LRN",
       .body = "lrn_param { local_size: 3 beta: 0.5 }",
       .bottoms = {{{2, 33, 3, 5}}}},
      {.type = "LRN",
       .body = "lrn_param { local_size: 3 alpha: 2 }",
       .bottoms = {{{2, 33, 2, 10}}}},
      {.type = "LRN", .body = "lrn_param { local_size: 7 }", .bottoms = {{{2, 9, 3, 5}}}},
      {.type = "LRN",
       .body = "lrn_param { local_size: 5 alpha: 2 norm_region: WITHIN_CHANNEL }",
       .bottoms = {x}},
  };
}

inline std::vector<LayerCase> large_routing_and_loss_cases() {
  const auto scores = [](int64_t rows, int64_t classes) { return CaseBottom{{rows, classes}}; };
  const auto labels = [](int64_t rows, int classes) {
    return CaseBottom{{rows}, Values::kLabels, classes};
  };
  std::vector<LayerCase> rows{
      {.type = "Concat", .bottoms = {{{3, 4, 2, 6}}, {{3, 8, 2, 6}}, {{3, 1, 2, 6}}}},
      {.type = "Slice",
       .body = "slice_param { slice_point: 4 }",
       .bottoms = {{{3, 8, 2, 6}}},
       .tops = 2},
      {.type = "Silence", .bottoms = {{{3, 37}}}, .tops = 0},
      {.type = "EuclideanLoss", .bottoms = {scores(9, 700), scores(9, 700)}},
      {.type = "SigmoidCrossEntropyLoss", .bottoms = {scores(9, 70), {{9, 70}, Values::kUnit}}},
      {.type = "SoftmaxWithLoss",
       .body = "loss_param { ignore_label: 2 normalization: FULL }",
       .bottoms = {{{3, 7, 5, 8}}, {{3, 5, 8}, Values::kLabels, 7}}},
  };
  for (int classes : {3, 100, 514, 1028}) {  // 1028: four at once by a block, 514: one by one
    rows.push_back({.type = "Softmax", .bottoms = {scores(5, classes)}});
    rows.push_back(
        {.type = "SoftmaxWithLoss", .bottoms = {scores(5, classes), labels(5, classes)}});
  }
  return rows;
}

// Each way that the device has for a convolution, and products of many rows.
inline std::vector<LayerCase> large_affine_cases() {
  const CaseBottom x{{3, 6, 9, 11}, Values::kGaussian};
  std::vector<LayerCase> rows;
  for (const char* engine : {"DEFAULT", "CAFFE", "CUDNN"}) {
    for (const char* fields :
         {"num_output: 10 kernel_size: 3 pad: 1", "num_output: 9 kernel_size: 3 stride: 2 group: 3",
          "num_output: 12 kernel_size: 3 group: 6", "num_output: 35 kernel_size: 1",
          "num_output: 7 kernel_h: 2 kernel_w: 5 dilation: 2 pad_w: 3 bias_term: false"}) {
      const std::string body =
          std::string("convolution_param { engine: ") + engine + " " + fields + " }";
      rows.push_back({.type = "Convolution", .body = body, .bottoms = {x, x}, .tops = 2});
    }
  }
  for (const char* fields : {"num_output: 40", "num_output: 40 transpose: true",
                             "num_output: 3 axis: 2", "num_output: 300 bias_term: false"}) {
    rows.push_back({.type = "InnerProduct",
                    .body = std::string("inner_product_param { ") + fields + " }",
                    .bottoms = {{{130, 3, 5}, Values::kGaussian}}});
  }
  return rows;
}

// Rows of types that need a device half. Their first `small` rows are those of the table.
inline std::vector<LayerCase> device_cases(size_t* small = nullptr) {
  std::vector<LayerCase> rows;
  for (LayerCase& row : runnable_cases()) {
    if (!LayerRegistry::instance().find(row.type)->host_ok) rows.push_back(std::move(row));
  }
  if (small != nullptr) *small = rows.size();
  for (auto* part :
       {large_affine_cases, large_neuron_cases, large_window_cases, large_routing_and_loss_cases}) {
    for (LayerCase& row : part()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace kinet
