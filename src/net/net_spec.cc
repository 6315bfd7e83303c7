#include "src/net/net_spec.h"

#include <algorithm>
#include <map>

#include "src/base/text.h"
#include "src/net/split.h"

namespace kinet {
namespace {

ParamSpec read_param(const Params& param) {
  ParamSpec spec;
  spec.name = param.get_string("name");
  spec.permissive = param.get_enum("share_mode") == "PERMISSIVE";
  if (param.has("lr_mult")) spec.lr_mult = param.get_float("lr_mult");
  if (param.has("decay_mult")) spec.decay_mult = param.get_float("decay_mult");
  spec.where = param.where();
  return spec;
}

LayerSpec read_layer(const ParamNode& node) {
  const Params layer(&node, &layer_fields());
  LayerSpec spec;
  spec.name = layer.get_string("name");
  spec.type = layer.get_string("type");
  spec.layer_type = LayerRegistry::instance().find(spec.type);
  spec.bottoms = layer.get_strings("bottom");
  spec.tops = layer.get_strings("top");
  spec.loss_weights = layer.get_floats("loss_weight");
  for (const ParamNode* down : node.find_all("propagate_down")) {
    ParamNode one;
    one.children.push_back(*down);
    spec.propagate_down.push_back(Params(&one, &layer_fields()).get_bool("propagate_down"));
  }
  for (const Params& param : layer.messages("param")) spec.params.push_back(read_param(param));
  spec.node = std::make_shared<const ParamNode>(node);
  return spec;
}

std::string title(const LayerSpec& layer) {
  return "layer '" + layer.name + "' (" + layer.type + ")";
}

std::string range_text(int low, int high) {
  if (high < 0) return "at least " + std::to_string(low);
  if (low == high) return std::to_string(low);
  return std::to_string(low) + " to " + std::to_string(high);
}

void check_count(const LayerSpec& layer, const char* what, size_t count, int low, int high,
                 Diagnostics& diagnostics) {
  const int n = static_cast<int>(count);
  if (n >= low && (high < 0 || n <= high)) return;
  diagnostics.error(layer.node->where, fmt::format("{} has {} {}{} but takes {}", title(layer), n,
                                                   what, n == 1 ? "" : "s", range_text(low, high)));
}

void check_counts(const LayerSpec& layer, Diagnostics& diagnostics) {
  const LayerType& type = *layer.layer_type;
  check_count(layer, "bottom", layer.bottoms.size(), type.min_bottoms, type.max_bottoms,
              diagnostics);
  check_count(layer, "top", layer.tops.size(), type.min_tops, type.max_tops, diagnostics);
  const auto wrong = [&](const std::string& message) {
    diagnostics.error(layer.node->where, title(layer) + ": " + message);
  };
  if (type.same_count && layer.bottoms.size() != layer.tops.size()) {
    wrong(fmt::format("{} bottoms but {} tops; it makes one top for each bottom",
                      layer.bottoms.size(), layer.tops.size()));
  }
  if (!layer.loss_weights.empty() && layer.loss_weights.size() != layer.tops.size()) {
    wrong(fmt::format("{} loss_weight for {} tops; give one for each top",
                      layer.loss_weights.size(), layer.tops.size()));
  }
  if (!layer.propagate_down.empty() && layer.propagate_down.size() != layer.bottoms.size()) {
    wrong(fmt::format("{} propagate_down for {} bottoms; give one for each bottom",
                      layer.propagate_down.size(), layer.bottoms.size()));
  }
}

// Follows the blobs from layer to layer: every bottom must be made by an earlier layer, and no blob
// is made twice except in place.
class Wiring {
 public:
  explicit Wiring(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void connect(const LayerSpec& layer) {
    for (const std::string& bottom : layer.bottoms) {
      if (made_by_.count(bottom) != 0) continue;
      std::vector<std::string> known;
      for (const auto& [blob, maker] : made_by_) known.push_back(blob);
      diagnostics_.error(position(layer, "bottom", bottom),
                         title(layer) + ": bottom '" + bottom +
                             "' is not made by any layer before" + did_you_mean(bottom, known));
      made_by_[bottom] = "(unknown)";
    }
    for (size_t t = 0; t < layer.tops.size(); ++t) {
      const std::string& top = layer.tops[t];
      const auto& bottoms = layer.bottoms;
      const bool in_place = t < bottoms.size() && bottoms[t] == top;
      const auto maker = made_by_.find(top);
      if (maker != made_by_.end() && !in_place) {
        diagnostics_.error(position(layer, "top", top), title(layer) + ": top '" + top +
                                                            "' is made by layer '" + maker->second +
                                                            "' already; give it another name");
      }
      made_by_[top] = layer.name;
    }
  }

 private:
  static Position position(const LayerSpec& layer, const char* field, const std::string& text) {
    for (const ParamNode* node : layer.node->find_all(field)) {
      if (node->text == text) return node->value_where;
    }
    return layer.node->where;
  }

  Diagnostics& diagnostics_;
  std::map<std::string, std::string> made_by_;
};

}  // namespace

NetSpec make_net_spec(const ParamNode& net, const NetState& state) {
  NetSpec spec;
  const Params root(&net, &net_fields());
  spec.name = root.get_string("name");
  spec.force_backward = root.get_bool("force_backward");
  spec.state = merge_state(net, state);
  Diagnostics diagnostics;
  Wiring wiring(diagnostics);
  for (const ParamNode* node : net.find_all("layer")) {
    if (!layer_in_state(*node, spec.state)) continue;
    LayerSpec layer = read_layer(*node);
    // A loss that nobody named still counts.
    if (layer.layer_type->is_loss && layer.tops.empty()) layer.tops.push_back(layer.name);
    check_counts(layer, diagnostics);
    wiring.connect(layer);
    spec.layers.push_back(std::move(layer));
  }
  if (spec.layers.empty()) {
    diagnostics.error(net.where, fmt::format("no layer is left in phase {} (level {}, stages [{}])",
                                             phase_name(spec.state.phase), spec.state.level,
                                             join(spec.state.stages, ", ")));
  }
  diagnostics.throw_if_any();
  insert_splits(spec);
  return spec;
}

void rethrow_at_layer(const LayerSpec& layer, const Error& error) {
  const Position& where = layer.node->where;
  const std::string message = error.what();
  const bool placed = where.file && message.starts_with(*where.file + ":");
  if (placed) throw Error(message, error.kind());
  throw Error(fmt::format("{}: layer '{}' ({}): {}", where.str(), layer.name, layer.type, message),
              error.kind());
}

}  // namespace kinet
