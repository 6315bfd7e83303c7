// Works on the tree, not on a built net, so that what it writes is what was written, less what has
// no use any more. First the layers that can run without labels, then, from the end to the
// beginning, those that the output needs.
#include "src/net/deploy.h"

#include <algorithm>
#include <set>
#include <vector>

#include "src/net/net.h"

namespace kinet {
namespace {

NetState test_state(const ParamNode& net) {
  NetState state;
  state.phase = Phase::kTest;
  return merge_state(net, state);
}

std::string text_of(const ParamNode& node, const char* field) {
  const ParamNode* found = node.find(field);
  return found == nullptr ? "" : found->text;
}

std::vector<std::string> texts_of(const ParamNode& node, const char* field) {
  std::vector<std::string> out;
  for (const ParamNode* found : node.find_all(field)) out.push_back(found->text);
  return out;
}

const LayerType& type_of(const ParamNode& layer) {
  const LayerType* type = LayerRegistry::instance().find(text_of(layer, "type"));
  KINET_CHECK(type != nullptr, "unknown layer type '{}'", text_of(layer, "type"));
  return *type;
}

std::vector<const ParamNode*> test_layers(const ParamNode& net) {
  const NetState state = test_state(net);
  std::vector<const ParamNode*> out;
  for (const ParamNode* layer : net.find_all("layer")) {
    if (layer_in_state(*layer, state)) out.push_back(layer);
  }
  return out;
}

bool contains_any(const std::set<std::string>& names, const std::vector<std::string>& wanted) {
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](auto& name) { return names.contains(name); });
}

double loss_weight_of(const ParamNode& layer) {
  const Params params(&layer, &layer_fields());
  return params.count("loss_weight") > 0 ? params.get_floats("loss_weight")[0] : 1.0;
}

// What a loss becomes in use; null: nothing.
const char* activation_of_loss(const std::string& type) {
  if (type == "SoftmaxWithLoss") return "Softmax";
  if (type == "SigmoidCrossEntropyLoss") return "Sigmoid";
  return nullptr;
}

// Of several losses (GoogLeNet has two on the way) the heaviest counts, of equal ones the last.
const ParamNode* main_loss(const std::vector<const ParamNode*>& layers) {
  const ParamNode* best = nullptr;
  for (const ParamNode* layer : layers) {
    if (activation_of_loss(text_of(*layer, "type")) == nullptr) continue;
    if (best == nullptr || loss_weight_of(*layer) >= loss_weight_of(*best)) best = layer;
  }
  return best;
}

ParamNode activation_layer(const ParamNode& loss) {
  const std::string type = activation_of_loss(text_of(loss, "type"));
  ParamNode layer;
  layer.name = "layer";
  layer.where = loss.where;
  layer.add_string("name", "prob");
  layer.add_string("type", type);
  layer.add_string("bottom", texts_of(loss, "bottom").at(0));
  layer.add_string("top", "prob");
  const ParamNode* settings = loss.find("softmax_param");
  if (settings != nullptr && type == "Softmax") layer.children.push_back(*settings);
  return layer;
}

ParamNode input_layer(const ParamNode& data, const Shape& shape) {
  ParamNode layer;
  layer.name = "layer";
  layer.where = data.where;
  layer.add_string("name", text_of(data, "name"));
  layer.add_string("type", "Input");
  layer.add_string("top", texts_of(data, "top").at(0));
  ParamNode& dims = layer.add_message("input_param").add_message("shape");
  for (const int64_t dim : shape.dims()) dims.add_scalar("dim", std::to_string(dim));
  return layer;
}

// Fields that matter in training alone. A param that only names a shared parameter stays.
ParamNode without_training_fields(ParamNode layer) {
  for (const char* field : {"include", "exclude", "loss_weight", "propagate_down", "phase"}) {
    layer.erase(field);
  }
  for (ParamNode& child : layer.children) {
    if (!child.is_message()) continue;
    for (const char* field : {"weight_filler", "bias_filler", "filler", "lr_mult", "decay_mult"}) {
      child.erase(field);
    }
  }
  std::erase_if(layer.children, [](const ParamNode& child) {
    return child.is_message() && child.name == "param" && child.find("name") == nullptr;
  });
  return layer;
}

// Layers of the TEST net that can run without labels: no data layers, losses or metrics.
std::vector<ParamNode> layers_in_use(const std::vector<const ParamNode*>& layers,
                                     const ParamNode& data, const Shape& input) {
  std::set<std::string> missing;  // blobs that nobody makes any more
  std::vector<ParamNode> kept;
  const ParamNode* loss = main_loss(layers);
  for (const ParamNode* layer : layers) {
    const LayerType& type = type_of(*layer);
    const std::vector<std::string> bottoms = texts_of(*layer, "bottom");
    const std::vector<std::string> tops = texts_of(*layer, "top");
    if (layer == &data) {
      const bool is_input = type.type == "Input";
      kept.push_back(is_input ? without_training_fields(*layer) : input_layer(*layer, input));
      if (!is_input) missing.insert(tops.begin() + 1, tops.end());
    } else if (layer == loss && !contains_any(missing, {bottoms.at(0)})) {
      kept.push_back(activation_layer(*layer));
    } else if (type.is_data || type.is_loss || !type.label_bottoms.empty() ||
               type.type == "Silence" || contains_any(missing, bottoms)) {
      missing.insert(tops.begin(), tops.end());
    } else {
      kept.push_back(without_training_fields(*layer));
    }
  }
  return kept;
}

// Takes off what the last layer does not need, from the end to the beginning. An in-place layer
// makes the blob that it reads, so it stays when its top is wanted.
void prune(std::vector<ParamNode>& layers) {
  if (layers.empty()) return;
  const std::vector<std::string> last = texts_of(layers.back(), "top");
  std::set<std::string> wanted(last.begin(), last.end());
  std::vector<ParamNode> kept;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const std::vector<std::string> tops = texts_of(*layer, "top");
    if (!contains_any(wanted, tops)) continue;
    for (const std::string& top : tops) wanted.erase(top);
    for (const std::string& bottom : texts_of(*layer, "bottom")) wanted.insert(bottom);
    kept.push_back(std::move(*layer));
  }
  layers.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

}  // namespace

const ParamNode* find_data_layer(const ParamNode& net) {
  const ParamNode* data = nullptr;
  for (const ParamNode* layer : test_layers(net)) {
    if (text_of(*layer, "type") == "Input") return layer;
    if (data == nullptr && type_of(*layer).is_data) data = layer;
  }
  return data;
}

bool needs_input_shape(const ParamNode& net) {
  const ParamNode* data = find_data_layer(net);
  return data != nullptr && text_of(*data, "type") != "Input";
}

Shape open_data_shape(const ParamNode& net) {
  const ParamNode* data = find_data_layer(net);
  KINET_CHECK(data != nullptr, "the net has neither a data nor an Input layer for phase TEST");
  ParamNode alone;
  alone.add_string("name", "data");
  alone.children.push_back(*data);
  NetOptions options;
  options.state = test_state(net);
  const Net opened(alone, options);
  return opened.tops(0).at(0)->shape();
}

ParamNode make_deploy_net(const ParamNode& net, const Shape& input) {
  const ParamNode* data = find_data_layer(net);
  KINET_CHECK(data != nullptr, "the net has neither a data nor an Input layer for phase TEST");
  std::vector<ParamNode> layers = layers_in_use(test_layers(net), *data, input);
  prune(layers);
  ParamNode out;
  const std::string name = text_of(net, "name");
  if (!name.empty()) out.add_string("name", name);
  for (ParamNode& layer : layers) out.children.push_back(std::move(layer));
  return out;
}

}  // namespace kinet
