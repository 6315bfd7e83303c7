// Nodes keep their positions, so that what is wrong with an old file is reported where it stands.
//
//   layers {                          layer {
//     type: CONVOLUTION                 type: "Convolution"
//     blobs_lr: 1  blobs_lr: 2          param { lr_mult: 1 decay_mult: 1 }
//     weight_decay: 1                   param { lr_mult: 2 }
//   }                                 }
// Reference: V1LayerParameter and SolverParameter in Caffe's caffe.proto (names and numbers).
#include "src/prototxt/upgrade_v1.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "src/base/text.h"
#include "src/prototxt/value.h"

namespace kinet {
namespace {

using Kind = ParamNode::Kind;

struct OldName {
  const char* old_name;
  int number;  // the enumeration's: files may give it instead
  const char* new_name;
};

constexpr OldName kLayerTypes[] = {
    {"ABSVAL", 35, "AbsVal"},
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
    {"ELTWISE", 25, "Eltwise"},
    {"EUCLIDEAN_LOSS", 7, "EuclideanLoss"},
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
    {"SLICE", 33, "Slice"},
    {"SOFTMAX", 20, "Softmax"},
    {"SOFTMAX_LOSS", 21, "SoftmaxWithLoss"},
    {"SPLIT", 22, "Split"},
    {"TANH", 23, "TanH"},
    {"THRESHOLD", 31, "Threshold"},
    {"WINDOW_DATA", 24, "WindowData"},
};

constexpr OldName kSolverTypes[] = {
    {"SGD", 0, "SGD"},         {"NESTEROV", 1, "Nesterov"}, {"ADAGRAD", 2, "AdaGrad"},
    {"RMSPROP", 3, "RMSProp"}, {"ADADELTA", 4, "AdaDelta"}, {"ADAM", 5, "Adam"},
};

// The messages that held the fields of transform_param in old files, and these fields.
constexpr const char* kDataMessages[] = {"data_param", "image_data_param", "window_data_param"};
constexpr const char* kTransformFields[] = {"scale", "mean_file", "crop_size", "mirror"};

// By name, quoted or not, or by number; null when `value` is none of the old names.
template <size_t kCount>
const OldName* find_old(const OldName (&names)[kCount], const ParamNode& value) {
  int64_t number = 0;
  const bool numbered =
      value.kind == Kind::kNumber && parse_integer(value.text, number) == IntegerText::kInteger;
  for (const OldName& name : names) {
    if (numbered ? name.number == number : name.old_name == value.text) return &name;
  }
  return nullptr;
}

void make_string(ParamNode& node, const char* value) {
  node.kind = Kind::kString;
  node.text = value;
}

std::string unknown_solver(const ParamNode& value) {
  std::vector<std::string> names;
  for (const OldName& name : kSolverTypes) names.emplace_back(name.old_name);
  const std::string written = value.is_message() ? "a message" : "'" + value.text + "'";
  return fmt::format("solver_type is one of {}, not {}{}\nhint: write type: \"SGD\"",
                     join(names, ", "), written, did_you_mean(value.text, names));
}

// A name that is not in the table stays, as a string: whoever knows the layers reports it.
void upgrade_type(ParamNode& layer) {
  for (ParamNode& child : layer.children) {
    if (child.name != "type" || child.is_message()) continue;
    const OldName* old = find_old(kLayerTypes, child);
    make_string(child, old ? old->new_name : child.text.c_str());
  }
}

// Where a V1 list belongs: its i-th value becomes this field of the i-th param {}; "" when the
// child is no such list.
std::string param_field(const ParamNode& child) {
  if (child.is_message()) return "";
  if (child.name == "blobs_lr") return "lr_mult";
  if (child.name == "weight_decay") return "decay_mult";
  if (child.name == "blob_share_mode") return "share_mode";
  return child.name == "param" ? "name" : "";
}

bool has_old_params(const ParamNode& layer) {
  return std::any_of(layer.children.begin(), layer.children.end(),
                     [](const ParamNode& child) { return !param_field(child).empty(); });
}

// The index-th of `params`, made when it is not there yet.
ParamNode& param_at(std::vector<ParamNode>& params, size_t index, const Position& where) {
  while (params.size() <= index) {
    ParamNode& param = params.emplace_back();
    param.name = "param";
    param.where = param.value_where = where;
  }
  return params[index];
}

// blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0
//   -> param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
// A param {} that is a message already keeps its place in the count and gets the fields added.
void upgrade_params(ParamNode& layer, Diagnostics& diagnostics) {
  std::vector<ParamNode> kept, params;
  for (const ParamNode& child : layer.children) {
    if (child.name == "param" && child.is_message()) params.push_back(child);
  }
  std::map<std::string, size_t> next;  // index for each list
  for (ParamNode& child : layer.children) {
    if (std::string field = param_field(child); !field.empty()) {
      diagnostics.note_once(
          child.name, child.where,
          fmt::format("old form: '{}' is read as param {{ {}: ... }}", child.name, field));
      const size_t index = next[field]++;
      child.name = std::move(field);
      param_at(params, index, child.where).children.push_back(std::move(child));
    } else if (child.name != "param") {
      kept.push_back(std::move(child));
    }
  }
  std::move(params.begin(), params.end(), std::back_inserter(kept));
  layer.children = std::move(kept);
}

ParamNode& transform_param_of(ParamNode& layer, const Position& where) {
  if (ParamNode* found = layer.find("transform_param")) return *found;
  ParamNode& made = layer.add_message("transform_param");
  made.where = made.value_where = where;
  return made;
}

// data_param { scale: s } -> transform_param { scale: s }. A field given in both places ends up
// twice in transform_param, which the check of fields reports with both positions.
void upgrade_transform(ParamNode& layer, const std::string& message, Diagnostics& diagnostics) {
  const auto is_transform = [](const ParamNode& field) {
    return std::any_of(std::begin(kTransformFields), std::end(kTransformFields),
                       [&](const char* name) { return field.name == name; });
  };
  std::vector<ParamNode> moved;
  if (ParamNode* data = layer.find(message)) {
    for (ParamNode& field : data->children) {
      if (is_transform(field)) moved.push_back(field);
    }
    std::erase_if(data->children, is_transform);
  }
  for (ParamNode& field : moved) {
    diagnostics.note_once("V1 " + message + field.name, field.where,
                          fmt::format("old form: '{}' of {} is read as a field of transform_param",
                                      field.name, message));
    transform_param_of(layer, field.where).children.push_back(std::move(field));
  }
}

void upgrade_layers(ParamNode& layer, Diagnostics& diagnostics) {
  diagnostics.note_once("V1 layers", layer.where, "old form (V1): layers { } is read as layer { }");
  layer.name = "layer";
  upgrade_type(layer);
  upgrade_params(layer, diagnostics);
  for (const char* message : kDataMessages) upgrade_transform(layer, message, diagnostics);
}

// Old spellings inside a block that is named in the new way, as mixed files have them.
void upgrade_mixed(ParamNode& layer, Diagnostics& diagnostics) {
  const ParamNode* type = layer.find("type");
  if (type && type->kind == Kind::kIdentifier && find_old(kLayerTypes, *type)) {
    diagnostics.note_once(
        "type", type->where,
        fmt::format("old form: type {} is read as a name of the new form", type->text));
    upgrade_type(layer);
  }
  if (has_old_params(layer)) upgrade_params(layer, diagnostics);
}

// layers { layer { name: "conv1" type: "conv" ... } bottom: "data" top: "conv1" }
bool is_v0(const ParamNode& layers) { return layers.name == "layers" && layers.find("layer"); }

}  // namespace

void upgrade_v1_net(ParamNode& net, Diagnostics& diagnostics) {
  for (ParamNode& child : net.children) {
    if (is_v0(child)) {
      diagnostics.error(child.where,
                        "layers { layer { ... } } is the oldest form of model files (V0), which "
                        "kinet does not read\nhint: rewrite it as layer { name: \"...\" type: "
                        "\"...\" bottom: \"...\" top: \"...\" ... }, by hand or with Caffe's "
                        "upgrade_net_proto_text");
    } else if (child.name == "layers" && child.is_message()) {
      upgrade_layers(child, diagnostics);
    } else if (child.name == "layer" && child.is_message()) {
      upgrade_mixed(child, diagnostics);
    }
  }
  std::erase_if(net.children, is_v0);  // reported: no second error for the same lines
}

void upgrade_v1_solver(ParamNode& solver, Diagnostics& diagnostics) {
  for (ParamNode& child : solver.children) {
    const bool net = child.name == "net_param" || child.name == "train_net_param" ||
                     child.name == "test_net_param";
    if (net && child.is_message()) upgrade_v1_net(child, diagnostics);
  }
  const ParamNode* type = solver.find("type");
  ParamNode* old_type = solver.find("solver_type");
  if (!old_type) return;
  const OldName* known = old_type->is_message() ? nullptr : find_old(kSolverTypes, *old_type);
  if (type) {
    diagnostics.error(old_type->where, "solver_type and type are both given, type at " +
                                           type->where.str() + "\nhint: keep type");
  } else if (!known) {
    diagnostics.error(old_type->value_where, unknown_solver(*old_type));
  } else {
    diagnostics.note_once("V1 solver_type", old_type->where,
                          fmt::format("old form: solver_type {} is read as type: \"{}\"",
                                      old_type->text, known->new_name));
    old_type->name = "type";
    make_string(*old_type, known->new_name);
  }
  solver.erase("solver_type");
}

}  // namespace kinet
