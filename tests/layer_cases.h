// The case table: at least one row for every registered layer type, used by the gradient check, the
// in-place test, the thread test and the accumulation test. A new layer adds its rows here; a type
// without a row fails LayerCases.EveryRegisteredTypeHasARow.
#pragma once

#include <string>
#include <vector>

#include "tests/layer_test_util.h"

namespace kinet {

// Where a bottom's values come from.
enum class Values {
  kGaussian,  // N(0, 1)
  kDistinct,  // apart from each other and from 0: no ties, no kink
  kUnit,      // U[0, 1)
  kLabels,    // whole numbers in [0, classes)
};

struct CaseBottom {
  Shape shape;
  Values values = Values::kGaussian;
  int classes = 0;
};

struct LayerCase {
  std::string type;
  std::string body = "";  // the layer's own fields
  std::vector<CaseBottom> bottoms = {};
  int tops = 1;
  // Central differences: |analytic - numeric| <= threshold * max(|analytic|, |numeric|, 1).
  double step = 1e-2, threshold = 1e-3;
  Phase phase = Phase::kTrain;
  std::string no_gradient = "";  // why there is nothing to check, when there is not
  bool fixed_batch = false;      // a bottom has no sample axis that could be lengthened
  bool needs_files = false;      // a data layer: cannot be made from this table

  std::string text() const {
    std::string out = "layer { name: 'l' type: '" + type + "'";
    for (size_t b = 0; b < bottoms.size(); ++b) out += " bottom: 'b" + std::to_string(b) + "'";
    for (int t = 0; t < tops; ++t) out += " top: 't" + std::to_string(t) + "'";
    return out + " " + body + " }";
  }
};

// Printed when a parameterised test names its row.
inline void PrintTo(const LayerCase& row, std::ostream* out) { *out << row.text(); }

inline std::vector<LayerCase> neuron_cases() {
  const CaseBottom x{{2, 3, 2, 4}, Values::kDistinct};
  return {
      {.type = "ReLU", .bottoms = {x}},
      {.type = "ReLU", .body = "relu_param { negative_slope: 0.1 }", .bottoms = {x}},
      {.type = "ReLU", .body = "relu_param { negative_slope: -0.4 }", .bottoms = {x}},
      {.type = "Sigmoid", .bottoms = {x}},
      {.type = "TanH", .bottoms = {x}},
      {.type = "ELU", .bottoms = {x}},
      {.type = "ELU", .body = "elu_param { alpha: 0.5 }", .bottoms = {x}},
      {.type = "ELU", .body = "elu_param { alpha: -0.5 }", .bottoms = {x}},
      {.type = "PReLU", .bottoms = {x}},
      {.type = "PReLU", .body = "prelu_param { channel_shared: true }", .bottoms = {x}},
      {.type = "PReLU", .bottoms = {{{4, 3}, Values::kDistinct}}},
      {.type = "Dropout", .bottoms = {x}},
      {.type = "Dropout", .body = "dropout_param { dropout_ratio: 0.75 }", .bottoms = {x}},
      {.type = "Dropout", .bottoms = {x}, .phase = Phase::kTest},
  };
}

inline std::vector<LayerCase> convolution_cases() {
  const CaseBottom x{{2, 3, 6, 4}};
  const auto conv = [](const std::string& fields) {
    return "convolution_param { " + fields + " }";
  };
  return {
      {.type = "Convolution",
       .body = conv("num_output: 2 kernel_size: 3 stride: 2"),
       .bottoms = {x}},
      {.type = "Convolution",
       .body = conv("num_output: 2 kernel_h: 1 kernel_w: 3 pad_w: 1"),
       .bottoms = {x}},
      {.type = "Convolution",
       .body = conv("num_output: 2 kernel_size: 3 dilation: 2 pad: 2"),
       .bottoms = {x}},
      {.type = "Convolution", .body = conv("num_output: 4 kernel_size: 1"), .bottoms = {x}},
      {.type = "Convolution",
       .body = conv("num_output: 6 kernel_size: 3 group: 3"),
       .bottoms = {x}},
      {.type = "Convolution",
       .body = conv("num_output: 2 kernel_size: 3 bias_term: false"),
       .bottoms = {x}},
      {.type = "Convolution",
       .body = conv("num_output: 2 kernel_size: 3"),
       .bottoms = {x, x},
       .tops = 2},
      {.type = "InnerProduct", .body = "inner_product_param { num_output: 5 }", .bottoms = {x}},
      {.type = "InnerProduct",
       .body = "inner_product_param { num_output: 5 transpose: true }",
       .bottoms = {x}},
      {.type = "InnerProduct",
       .body = "inner_product_param { num_output: 5 axis: 2 bias_term: false }",
       .bottoms = {x}},
  };
}

inline std::vector<LayerCase> pooling_and_norm_cases() {
  const CaseBottom x{{2, 3, 5, 4}, Values::kDistinct};
  const auto pool = [](const std::string& fields) { return "pooling_param { " + fields + " }"; };
  return {
      {.type = "Pooling",
       .body = pool("kernel_size: 3 stride: 2"),
       .bottoms = {x},
       .threshold = 1e-2},
      {.type = "Pooling",
       .body = pool("kernel_h: 3 kernel_w: 2 stride: 2 pad: 1"),
       .bottoms = {x},
       .threshold = 1e-2},
      {.type = "Pooling", .body = pool("pool: AVE kernel_size: 3 stride: 2"), .bottoms = {x}},
      {.type = "Pooling", .body = pool("pool: AVE kernel_size: 3 pad: 1"), .bottoms = {x}},
      {.type = "Pooling", .body = pool("pool: AVE global_pooling: true"), .bottoms = {x}},
      {.type = "LRN", .bottoms = {{{2, 7, 3, 3}}}},
      {.type = "LRN",
       .body = "lrn_param { local_size: 15 alpha: 0.9 beta: 0.6 k: 2 }",
       .bottoms = {{{2, 7, 3, 3}}}},
      {.type = "LRN",
       .body = "lrn_param { local_size: 3 norm_region: WITHIN_CHANNEL }",
       .bottoms = {{{2, 3, 5, 4}}}},
      {.type = "BatchNorm", .bottoms = {{{5, 2, 3, 4}}}, .threshold = 5e-3},
      {.type = "BatchNorm", .bottoms = {{{5, 2, 3, 4}}}, .phase = Phase::kTest},
      {.type = "Scale", .bottoms = {x}},
      {.type = "Scale", .body = "scale_param { bias_term: true }", .bottoms = {x}},
      {.type = "Scale",
       .body = "scale_param { axis: 2 num_axes: 1 bias_term: true }",
       .bottoms = {x}},
      {.type = "Scale", .body = "scale_param { num_axes: 0 }", .bottoms = {x}},
      {.type = "Scale",
       .body = "scale_param { axis: 1 }",
       .bottoms = {x, {{3, 5}}},
       .fixed_batch = true},
      {.type = "Scale", .body = "scale_param { axis: 0 }", .bottoms = {x, x}},
      {.type = "Bias", .bottoms = {x}},
      {.type = "Bias", .body = "bias_param { axis: 2 num_axes: 2 }", .bottoms = {x}},
      {.type = "Bias", .body = "bias_param { axis: 0 }", .bottoms = {x, x}},
  };
}

inline std::vector<LayerCase> routing_cases() {
  const CaseBottom x{{2, 3, 2, 4}};
  const CaseBottom d{{2, 3, 2, 4}, Values::kDistinct};
  const auto eltwise = [](const std::string& fields) { return "eltwise_param { " + fields + " }"; };
  return {
      {.type = "Eltwise", .bottoms = {x, x, x}},
      {.type = "Eltwise", .body = eltwise("coeff: 1 coeff: -0.5 coeff: 2"), .bottoms = {x, x, x}},
      {.type = "Eltwise", .body = eltwise("operation: PROD"), .bottoms = {x, x, x}},
      {.type = "Eltwise",
       .body = eltwise("operation: PROD stable_prod_grad: false"),
       .bottoms = {d, d, d}},
      {.type = "Eltwise",
       .body = eltwise("operation: MAX"),
       .bottoms = {d, d, d},
       .step = 1e-4,
       .threshold = 1e-2},
      {.type = "Concat", .bottoms = {x, {{2, 1, 2, 4}}}},
      {.type = "Concat", .body = "concat_param { axis: 0 }", .bottoms = {x, {{4, 3, 2, 4}}}},
      {.type = "Concat", .body = "concat_param { axis: -1 }", .bottoms = {x, x, {{2, 3, 2, 1}}}},
      {.type = "Slice", .body = "slice_param { slice_point: 1 }", .bottoms = {x}, .tops = 2},
      {.type = "Slice", .body = "slice_param { axis: -1 }", .bottoms = {x}, .tops = 4},
      {.type = "Slice", .body = "slice_param { slice_dim: 0 }", .bottoms = {x}, .tops = 2},
      {.type = "Flatten", .bottoms = {x}},
      {.type = "Reshape", .body = "reshape_param { shape { dim: 0 dim: -1 } }", .bottoms = {x}},
      {.type = "Split", .bottoms = {x}, .tops = 3},
      {.type = "Softmax", .bottoms = {x}},
      {.type = "Softmax", .body = "softmax_param { axis: -1 }", .bottoms = {x}},
      {.type = "Silence", .bottoms = {x, x}, .tops = 0},
  };
}

inline std::vector<LayerCase> loss_cases() {
  const CaseBottom scores{{4, 5, 2, 3}};
  const CaseBottom labels{{4, 2, 3}, Values::kLabels, 5};
  const CaseBottom rows{{6, 4}};
  const CaseBottom targets{{6, 4}, Values::kUnit};
  const auto loss = [](const std::string& fields) { return "loss_param { " + fields + " }"; };
  return {
      {.type = "SoftmaxWithLoss", .bottoms = {scores, labels}, .threshold = 1e-2},
      {.type = "SoftmaxWithLoss",
       .body = loss("ignore_label: 0"),
       .bottoms = {scores, labels},
       .threshold = 1e-2},
      {.type = "SoftmaxWithLoss",
       .body = loss("normalize: false"),
       .bottoms = {scores, labels},
       .threshold = 1e-2},
      {.type = "SoftmaxWithLoss",
       .bottoms = {rows, {{6}, Values::kLabels, 4}},
       .tops = 2,
       .threshold = 1e-2},
      {.type = "EuclideanLoss", .bottoms = {rows, rows}, .threshold = 1e-2},
      {.type = "SigmoidCrossEntropyLoss", .bottoms = {rows, targets}, .threshold = 1e-2},
      {.type = "SigmoidCrossEntropyLoss",
       .body = loss("ignore_label: 1 normalization: VALID"),
       .bottoms = {rows, {{6, 4}, Values::kLabels, 2}},
       .threshold = 1e-2},
      {.type = "Accuracy", .bottoms = {scores, labels}, .no_gradient = "a count"},
      {.type = "ArgMax", .bottoms = {scores}, .no_gradient = "indices"},
  };
}

inline std::vector<LayerCase> data_cases() {
  const std::string made = "makes its tops itself";
  std::vector<LayerCase> rows = {
      {.type = "Input", .body = "input_param { shape { dim: 2 dim: 3 } }", .no_gradient = made},
      {.type = "DummyData",
       .body = "dummy_data_param { shape { dim: 2 dim: 3 } }",
       .no_gradient = made},
  };
  for (const char* type : {"Data", "MnistData", "Cifar10Data", "ImageData"}) {
    rows.push_back({.type = type, .tops = 2, .no_gradient = made, .needs_files = true});
  }
  return rows;
}

inline std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> all;
  for (auto* part : {neuron_cases, convolution_cases, pooling_and_norm_cases, routing_cases,
                     loss_cases, data_cases}) {
    for (LayerCase& row : part()) all.push_back(std::move(row));
  }
  return all;
}

// The rows that can be made here. A row of a type that is not registered fails
// LayerCases.EveryRegisteredTypeHasARow, so nothing is left out unseen.
inline std::vector<LayerCase> runnable_cases() {
  std::vector<LayerCase> out;
  for (LayerCase& row : layer_cases()) {
    if (!row.needs_files && LayerRegistry::instance().find(row.type)) out.push_back(std::move(row));
  }
  return out;
}

// The layer of a row with its bottoms and parameters filled; the first axis of every bottom may be
// made `times` as long.
inline OneLayer make_case(const LayerCase& row, int threads = 1, bool in_place = false,
                          int64_t times = 1, const std::shared_ptr<Device>& device = nullptr) {
  std::vector<Shape> shapes;
  for (const CaseBottom& bottom : row.bottoms) {
    shapes.push_back(bottom.shape);
    shapes.back()[0] *= times;
  }
  OneLayer layer(row.text(), shapes,
                 {.phase = row.phase, .threads = threads, .in_place = in_place, .device = device});
  for (int b = 0; b < layer.bottom_count(); ++b) {
    Tensor& tensor = layer.bottom(b);
    const CaseBottom& bottom = row.bottoms[b];
    Rng rng(3, RngPurpose::kTest, b);
    layer.randomize(tensor, b);
    if (bottom.values == Values::kDistinct) layer.set_bottom(b, distinct_values(tensor.count(), b));
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (bottom.values == Values::kUnit) tensor.data()[i] = rng.uniform();
      if (bottom.values == Values::kLabels) {
        tensor.data()[i] = static_cast<float>(rng.below(bottom.classes));
      }
    }
  }
  for (size_t i = 0; i < layer.layer().blobs().size(); ++i) {
    if (layer.blob(i).has_diff()) layer.randomize(layer.blob(i), 100 + i);
  }
  return layer;
}

}  // namespace kinet
