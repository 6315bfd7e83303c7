// Old (V1) model and solver files are read as if they had been written in the new form.
// ctest: labels=unit,core,smoke
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "src/prototxt/upgrade_v1.h"
#include "tests/prototxt_helpers.h"

namespace kinet {
namespace {

using namespace prototxt_test;

ParamNode upgraded(std::string_view text, Diagnostics& diagnostics) {
  ParamNode net = parse(text);
  upgrade_v1_net(net, diagnostics);
  return net;
}

ParamNode upgraded(std::string_view text) {
  Diagnostics diagnostics;
  ParamNode net = upgraded(text, diagnostics);
  EXPECT_EQ(diagnostics.errors(), Lines());
  return net;
}

ParamNode upgraded_solver(std::string_view text, Diagnostics& diagnostics) {
  ParamNode solver = parse(text);
  upgrade_v1_solver(solver, diagnostics);
  return solver;
}

TEST(UpgradeV1, LenetGivesTheNewForm) {
  const ParamNode net = upgraded(R"(
    name: "LeNet"
    layers {
      name: "mnist" type: DATA top: "data" top: "label"
      data_param { source: "train_lmdb" scale: 0.00390625 batch_size: 64 mirror: true }
      include: { phase: TRAIN }
    }
    layers {
      name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1"
      blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0
      convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } }
    }
    layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1"
      pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
    layers { name: "ip1" type: INNER_PRODUCT bottom: "pool1" top: "ip1" blobs_lr: [1, 2]
      inner_product_param { num_output: 500 } }
    layers { name: "relu1" type: RELU bottom: "ip1" top: "ip1" }
    layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip1" bottom: "label" loss_weight: 0.5 }
  )");
  expect_same_tree(net, parse(R"(
    name: "LeNet"
    layer {
      name: "mnist" type: "Data" top: "data" top: "label"
      data_param { source: "train_lmdb" batch_size: 64 }
      include: { phase: TRAIN }
      transform_param { scale: 0.00390625 mirror: true }
    }
    layer {
      name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
      convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } }
      param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
    }
    layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
      pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
    layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1"
      inner_product_param { num_output: 500 } param { lr_mult: 1 } param { lr_mult: 2 } }
    layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" loss_weight: 0.5 }
  )"));
}

TEST(UpgradeV1, NewFilesStayAsTheyAre) {
  const std::string_view text = R"(
    name: "x" input: "data" input_dim: 1 input_dim: 3
    layer { name: "a" type: "Convolution" param { lr_mult: 1 } param { name: "w" }
      convolution_param { num_output: 1 } }
    layer { name: "b" type: "ReLU" data_param { source: "s" } }
  )";
  Diagnostics diagnostics;
  expect_same_tree(upgraded(text, diagnostics), parse(text));
  EXPECT_EQ(diagnostics.notes(), Lines());
}

struct Name {
  const char* old_name;
  int number;
  const char* new_name;
};

// The whole list of V1 layer types (Caffe's V1LayerParameter.LayerType).
constexpr Name kTypes[] = {{"ABSVAL", 35, "AbsVal"},
                           {"ACCURACY", 1, "Accuracy"},
                           {"ARGMAX", 30, "ArgMax"},
                           {"BNLL", 2, "BNLL"},
                           {"CONCAT", 3, "Concat"},
                           {"CONTRASTIVE_LOSS", 37, "ContrastiveLoss"},
                           {"CONVOLUTION", 4, "Convolution"},
                           {"DATA", 5, "Data"},
                           {"DECONVOLUTION", 39, "Deconvolution"},
                           {"DROPOUT", 6, "Dropout"},
                           {"DUMMY_DATA", 32, "DummyData"},
                           {"EUCLIDEAN_LOSS", 7, "EuclideanLoss"},
                           {"ELTWISE", 25, "Eltwise"},
                           {"EXP", 38, "Exp"},
                           {"FLATTEN", 8, "Flatten"},
                           {"HDF5_DATA", 9, "HDF5Data"},
                           {"HDF5_OUTPUT", 10, "HDF5Output"},
                           {"HINGE_LOSS", 28, "HingeLoss"},
                           {"IM2COL", 11, "Im2col"},
                           {"IMAGE_DATA", 12, "ImageData"},
                           {"INFOGAIN_LOSS", 13, "InfogainLoss"},
                           {"INNER_PRODUCT", 14, "InnerProduct"},
                           {"LRN", 15, "LRN"},
                           {"MEMORY_DATA", 29, "MemoryData"},
                           {"MULTINOMIAL_LOGISTIC_LOSS", 16, "MultinomialLogisticLoss"},
                           {"MVN", 34, "MVN"},
                           {"POOLING", 17, "Pooling"},
                           {"POWER", 26, "Power"},
                           {"RELU", 18, "ReLU"},
                           {"SIGMOID", 19, "Sigmoid"},
                           {"SIGMOID_CROSS_ENTROPY_LOSS", 27, "SigmoidCrossEntropyLoss"},
                           {"SILENCE", 36, "Silence"},
                           {"SOFTMAX", 20, "Softmax"},
                           {"SOFTMAX_LOSS", 21, "SoftmaxWithLoss"},
                           {"SPLIT", 22, "Split"},
                           {"SLICE", 33, "Slice"},
                           {"TANH", 23, "TanH"},
                           {"WINDOW_DATA", 24, "WindowData"},
                           {"THRESHOLD", 31, "Threshold"}};

TEST(UpgradeV1, EveryTypeBareQuotedAndByNumber) {
  for (const Name& type : kTypes) {
    const ParamNode net = upgraded(
        fmt::format("layers {{ type: {0} }} layers {{ type: \"{0}\" }} layers {{ type: {1} }}",
                    type.old_name, type.number));
    for (const ParamNode& layer : net.children) {
      EXPECT_EQ(layer.name, "layer");
      EXPECT_EQ(layer.find("type")->kind, ParamNode::Kind::kString);
      EXPECT_EQ(layer.find("type")->text, type.new_name);
    }
  }
}

TEST(UpgradeV1, UnknownTypesStayForTheCheckOfLayerTypes) {
  const ParamNode net = upgraded("layers { type: CONVOLUTON } layers { type: \"ReLU\" }");
  expect_same_tree(net, parse("layer { type: \"CONVOLUTON\" } layer { type: \"ReLU\" }"));
  EXPECT_EQ(net.children[0].find("type")->value_where.str(), "f:1:16");
}

// Case A2.
TEST(UpgradeV1, MixedFilesKeepFileOrder) {
  const ParamNode net =
      upgraded("layer { name: \"a\" }\nlayers { name: \"b\" type: RELU }\nlayer { name: \"c\" }\n");
  expect_same_tree(net, parse("layer { name: \"a\" } layer { name: \"b\" type: \"ReLU\" } "
                              "layer { name: \"c\" }"));
  EXPECT_EQ(net.children[1].where.str(), "f:2:1") << "positions stay those of the file";
}

TEST(UpgradeV1, OldSpellingsInsideNewBlocks) {
  expect_same_tree(upgraded("layer { type: CONVOLUTION blobs_lr: 1 weight_decay: 0 }"),
                   parse("layer { type: \"Convolution\" param { lr_mult: 1 decay_mult: 0 } }"));
  expect_same_tree(upgraded("layer { type: \"Slice\" param: 'w' }"),
                   parse("layer { type: \"Slice\" param { name: 'w' } }"));
  // Not an old name: the check of fields asks for quotes.
  expect_same_tree(upgraded("layer { type: Convolution }"), parse("layer { type: Convolution }"));
}

TEST(UpgradeV1, SharedParametersAndUnevenLists) {
  expect_same_tree(
      upgraded("layers { type: CONVOLUTION param: \"w\" param: 'b' blob_share_mode: PERMISSIVE "
               "blobs_lr: 1 blobs_lr: 2 blobs_lr: 3 weight_decay: 4 }"),
      parse("layer { type: \"Convolution\" "
            "param { name: \"w\" share_mode: PERMISSIVE lr_mult: 1 decay_mult: 4 } "
            "param { name: \"b\" lr_mult: 2 } param { lr_mult: 3 } }"));
  // New-form param {} beside an old list: the i-th value belongs to the i-th param.
  expect_same_tree(upgraded("layers { blobs_lr: 1 param { name: 'w' } blobs_lr: 2 }"),
                   parse("layer { param { name: 'w' lr_mult: 1 } param { lr_mult: 2 } }"));
}

TEST(UpgradeV1, NewParametersKeepThePlaceOfTheirOldValues) {
  const ParamNode net = upgraded("layers {\n  blobs_lr: 1\n  weight_decay: 7\n}");
  const ParamNode* param = net.children[0].find("param");
  ASSERT_NE(param, nullptr);
  EXPECT_EQ(param->where.str(), "f:2:3");
  EXPECT_EQ(param->find("decay_mult")->value_where.str(), "f:3:17");
}

TEST(UpgradeV1, TransformFieldsOfEachDataMessage) {
  for (const char* message : {"data_param", "image_data_param", "window_data_param"}) {
    expect_same_tree(
        upgraded(fmt::format("layers {{ {} {{ source: 's' scale: 2 mean_file: 'm' crop_size: 27 "
                             "mirror: true }} }}",
                             message)),
        parse(
            fmt::format("layer {{ {} {{ source: 's' }} transform_param {{ scale: 2 mean_file: 'm' "
                        "crop_size: 27 mirror: true }} }}",
                        message)));
  }
  expect_same_tree(upgraded("layers { transform_param { mirror: true } data_param { scale: 2 } }"),
                   parse("layer { transform_param { mirror: true scale: 2 } data_param { } }"));
  // In the new form these fields are the data layer's to judge.
  const std::string_view new_form = "layer { data_param { scale: 2 } }";
  expect_same_tree(upgraded(new_form), parse(new_form));
}

TEST(UpgradeV1, EachOldFormIsNotedOnce) {
  Diagnostics diagnostics;
  upgraded(
      "layers { type: RELU }\nlayers { blobs_lr: 1 blobs_lr: 2 }\nlayers { weight_decay: 1 }\n"
      "layers { data_param { scale: 1 } }\nlayers { data_param { scale: 1 } }",
      diagnostics);
  EXPECT_EQ(diagnostics.notes(),
            (Lines{"f:1:1: old form (V1): layers { } is read as layer { }",
                   "f:2:10: old form: 'blobs_lr' is read as param { lr_mult: ... }",
                   "f:3:10: old form: 'weight_decay' is read as param { decay_mult: ... }",
                   "f:4:23: old form: 'scale' of data_param is read as a field of "
                   "transform_param"}));
}

TEST(UpgradeV1, V0IsRefusedWithWhatToDo) {
  Diagnostics diagnostics;
  const ParamNode net = upgraded(
      "name: \"old\"\nlayers {\n  layer { name: \"conv1\" type: \"conv\" }\n  bottom: \"data\" "
      "top: \"conv1\"\n}\n",
      diagnostics);
  ASSERT_EQ(diagnostics.errors().size(), 1u);
  const std::string& error = diagnostics.errors()[0];
  EXPECT_EQ(error.substr(0, error.find('\n')),
            "f:2:1: layers { layer { ... } } is the oldest form of model files (V0), which kinet "
            "does not read");
  EXPECT_NE(error.find("\nhint: rewrite it as layer {"), std::string::npos);
  EXPECT_EQ(net.find("layers"), nullptr) << "no second error for the same lines";
}

TEST(UpgradeV1, ScalarsNamedLikeLayersAreLeftToTheCheck) {
  const std::string_view text = "layers: 5 layer: \"x\"";
  expect_same_tree(upgraded(text), parse(text));
  const std::string_view odd = "layer { type { } data_param: 5 }";
  expect_same_tree(upgraded(odd), parse(odd));
  expect_same_tree(upgraded("layers { type { } data_param: 5 blobs_lr { } }"),
                   parse("layer { type { } data_param: 5 blobs_lr { } }"));
}

// ---- solver files ------------------------------------------------------------------------------

TEST(UpgradeSolver, EveryTypeBareQuotedAndByNumber) {
  constexpr Name kSolvers[] = {{"SGD", 0, "SGD"},           {"NESTEROV", 1, "Nesterov"},
                               {"ADAGRAD", 2, "AdaGrad"},   {"RMSPROP", 3, "RMSProp"},
                               {"ADADELTA", 4, "AdaDelta"}, {"ADAM", 5, "Adam"}};
  for (const Name& type : kSolvers) {
    for (const std::string& written :
         {std::string(type.old_name), fmt::format("'{}'", type.old_name),
          std::to_string(type.number)}) {
      Diagnostics diagnostics;
      const ParamNode solver =
          upgraded_solver("base_lr: 1 solver_type: " + written + " momentum: 2", diagnostics);
      expect_same_tree(solver,
                       parse(fmt::format("base_lr: 1 type: \"{}\" momentum: 2", type.new_name)));
      EXPECT_EQ(diagnostics.notes(),
                Lines{fmt::format("f:1:12: old form: solver_type {} is read as type: \"{}\"",
                                  written[0] == '\'' ? type.old_name : written, type.new_name)});
    }
  }
}

TEST(UpgradeSolver, UnknownTypeHasASuggestion) {
  Diagnostics diagnostics;
  const ParamNode solver = upgraded_solver("solver_type: ADAMM", diagnostics);
  EXPECT_EQ(diagnostics.errors(),
            Lines{"f:1:14: solver_type is one of SGD, NESTEROV, ADAGRAD, RMSPROP, ADADELTA, ADAM, "
                  "not 'ADAMM' (did you mean 'ADAM'?)\nhint: write type: \"SGD\""});
  EXPECT_TRUE(solver.children.empty());
}

TEST(UpgradeSolver, BothFormsAreRefused) {
  Diagnostics diagnostics;
  upgraded_solver("type: \"SGD\"\nsolver_type: ADAM", diagnostics);
  EXPECT_EQ(diagnostics.errors(),
            Lines{"f:2:1: solver_type and type are both given, type at f:1:1\nhint: keep type"});
}

TEST(UpgradeSolver, NewFilesStayAndNetsInsideAreUpgraded) {
  Diagnostics diagnostics;
  const std::string_view text = "type: \"Adam\" base_lr: 1 test_iter: [1, 2]";
  expect_same_tree(upgraded_solver(text, diagnostics), parse(text));
  EXPECT_EQ(diagnostics.notes(), Lines());
  for (const char* field : {"net_param", "train_net_param", "test_net_param"}) {
    expect_same_tree(
        upgraded_solver(fmt::format("{} {{ layers {{ type: RELU }} }}", field), diagnostics),
        parse(fmt::format("{} {{ layer {{ type: \"ReLU\" }} }}", field)));
  }
  EXPECT_EQ(diagnostics.errors(), Lines());
}

}  // namespace
}  // namespace kinet
