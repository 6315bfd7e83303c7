// Reading net files: old forms rewritten, every field of every layer checked.
#include <algorithm>

#include "src/base/text.h"
#include "src/net/net_spec.h"
#include "src/prototxt/upgrade_v1.h"

namespace kinet {
namespace {

// input: "data" with input_shape {} or four input_dim becomes a layer of type Input.
ParamNode input_layer(const ParamNode& net, const ParamNode& input, size_t index,
                      Diagnostics& diagnostics) {
  const auto shapes = net.find_all("input_shape");
  const auto dims = net.find_all("input_dim");
  ParamNode layer;
  layer.name = "layer";
  layer.where = layer.value_where = input.where;
  layer.add_string("name", input.text).where = input.where;
  layer.add_string("type", "Input");
  layer.add_string("top", input.text);
  ParamNode& shape = layer.add_message("input_param").add_message("shape");
  if (index < shapes.size()) {
    shape.children = shapes[index]->children;
  } else if (shapes.empty() && dims.size() >= 4 * (index + 1)) {
    for (size_t d = 4 * index; d < 4 * index + 4; ++d) shape.add_scalar("dim", dims[d]->text);
  } else {
    diagnostics.error(input.where, "input '" + input.text +
                                       "' has no shape: give one input_shape { dim: ... } (or four "
                                       "input_dim) for each input");
  }
  return layer;
}

void upgrade_inputs(ParamNode& net, Diagnostics& diagnostics) {
  const auto inputs = net.find_all("input");
  if (inputs.empty()) return;
  std::vector<ParamNode> layers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    layers.push_back(input_layer(net, *inputs[i], i, diagnostics));
  }
  for (const char* field : {"input", "input_shape", "input_dim"}) net.erase(field);
  net.children.insert(net.children.begin(), std::make_move_iterator(layers.begin()),
                      std::make_move_iterator(layers.end()));
}

std::string text_of(const ParamNode& node, const char* field) {
  const ParamNode* found = node.find(field);
  return found == nullptr ? "" : found->text;
}

std::string title(const ParamNode& layer) {
  const std::string name = text_of(layer, "name"), type = text_of(layer, "type");
  return "layer '" + (name.empty() ? "(no name)" : name) + "'" +
         (type.empty() ? "" : " (" + type + ")");
}

void validate_layer(const ParamNode& layer, Diagnostics& diagnostics) {
  if (!layer.is_message()) {
    diagnostics.error(layer.where, "'layer' is a message: layer { name: ... type: ... }");
    return;
  }
  const ParamNode* type_node = layer.find("type");
  if (layer.find("name") == nullptr) {
    diagnostics.error(layer.where, title(layer) + " has no name; give it one: name: \"...\"");
  }
  if (type_node == nullptr) {
    diagnostics.error(layer.where, title(layer) + " has no type; give it one: type: \"...\"");
    return;
  }
  const LayerType* type = LayerRegistry::instance().find(type_node->text);
  if (type == nullptr) {
    const std::vector<std::string> known = LayerRegistry::instance().names();
    const std::string guess = did_you_mean(type_node->text, known);
    diagnostics.error(type_node->value_where,
                      title(layer) + ": unknown layer type '" + type_node->text + "'" +
                          (guess.empty() ? "; known types: " + join(known, ", ") : guess));
    return;
  }
  validate(layer, layer_fields_of(*type), title(layer), diagnostics);
  if (layer.find("include") != nullptr && layer.find("exclude") != nullptr) {
    diagnostics.error(layer.where, title(layer) + " has include and exclude rules; use one kind");
  }
}

// Fields of the net itself; layers have their own declarations.
void validate_net_itself(const ParamNode& net, Diagnostics& diagnostics) {
  ParamNode shallow = net;
  std::erase_if(shallow.children, [](const ParamNode& child) { return child.name == "layer"; });
  validate(shallow, net_fields(), "net", diagnostics);
}

}  // namespace

ParamNode prepare_net(ParamNode root, std::vector<std::string>* notes) {
  Diagnostics diagnostics;
  upgrade_v1_net(root, diagnostics);
  upgrade_inputs(root, diagnostics);
  validate_net_itself(root, diagnostics);
  const auto layers = root.find_all("layer");
  // Layers of a form that was refused are gone already.
  if (layers.empty() && diagnostics.ok()) diagnostics.error(root.where, "the net has no layers");
  for (const ParamNode* layer : layers) validate_layer(*layer, diagnostics);
  diagnostics.throw_if_any();
  if (notes != nullptr) {
    notes->insert(notes->end(), diagnostics.notes().begin(), diagnostics.notes().end());
  }
  return root;
}

ParamNode load_net_file(const std::string& path, std::vector<std::string>* notes) {
  return prepare_net(parse_prototxt_file(path), notes);
}

}  // namespace kinet
