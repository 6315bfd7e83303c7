#include "src/net/split.h"

#include <map>

namespace kinet {
namespace {

// One version of a blob: the layer and top that made it.
struct Maker {
  int layer = -1, top = -1;
  auto operator<=>(const Maker&) const = default;
};

struct Readers {
  int count = 0;   // readers in the net, a loss weight included
  int served = 0;  // split tops handed out so far
};

float loss_weight(const LayerSpec& layer, size_t top) {
  if (!layer.loss_weights.empty()) return layer.loss_weights[top];
  return layer.layer_type->is_loss && top == 0 ? 1.0f : 0.0f;
}

std::string split_name(const LayerSpec& maker, int top) {
  return maker.tops[top] + "_" + maker.name + "_" + std::to_string(top) + "_split";
}

// Who made each bottom (outer: layer, inner: bottom), and how often each version is read.
std::vector<std::vector<Maker>> trace(const NetSpec& spec, std::map<Maker, Readers>& readers) {
  std::vector<std::vector<Maker>> made_by(spec.layers.size());
  std::map<std::string, Maker> latest;
  for (int i = 0; i < static_cast<int>(spec.layers.size()); ++i) {
    const LayerSpec& layer = spec.layers[i];
    for (const std::string& bottom : layer.bottoms) {
      made_by[i].push_back(latest.at(bottom));
      ++readers[made_by[i].back()].count;
    }
    for (int t = 0; t < static_cast<int>(layer.tops.size()); ++t) {
      latest[layer.tops[t]] = {i, t};
      if (loss_weight(layer, t) != 0) ++readers[{i, t}].count;
    }
  }
  return made_by;
}

LayerSpec make_split(const LayerSpec& maker, int top, int count) {
  LayerSpec split;
  split.name = split_name(maker, top);
  split.type = "Split";
  split.layer_type = LayerRegistry::instance().find("Split");
  KINET_CHECK(split.layer_type != nullptr, "the layer type Split is missing from this build");
  split.bottoms = {maker.tops[top]};
  ParamNode node;
  node.name = "layer";
  node.where = node.value_where = maker.node->where;
  node.add_string("name", split.name);
  node.add_string("type", split.type);
  node.add_string("bottom", maker.tops[top]);
  for (int k = 0; k < count; ++k) {
    split.tops.push_back(split.name + "_" + std::to_string(k));
    node.add_string("top", split.tops.back());
  }
  split.node = std::make_shared<const ParamNode>(std::move(node));
  return split;
}

}  // namespace

void insert_splits(NetSpec& spec) {
  std::map<Maker, Readers> readers;
  const auto made_by = trace(spec, readers);
  std::vector<LayerSpec> out;
  for (int i = 0; i < static_cast<int>(spec.layers.size()); ++i) {
    LayerSpec layer = spec.layers[i];
    for (size_t b = 0; b < layer.bottoms.size(); ++b) {
      const Maker maker = made_by[i][b];
      Readers& r = readers[maker];
      if (r.count < 2) continue;
      layer.bottoms[b] =
          split_name(spec.layers[maker.layer], maker.top) + "_" + std::to_string(r.served++);
    }
    std::vector<LayerSpec> splits;
    for (int t = 0; t < static_cast<int>(layer.tops.size()); ++t) {
      Readers& r = readers[{i, t}];
      if (r.count < 2) continue;
      splits.push_back(make_split(spec.layers[i], t, r.count));
      const float weight = loss_weight(layer, t);
      if (weight == 0) continue;
      if (layer.loss_weights.empty()) layer.loss_weights.assign(layer.tops.size(), 0.0f);
      layer.loss_weights[t] = 0;
      splits.back().loss_weights.assign(r.count, 0.0f);
      splits.back().loss_weights[0] = weight;
      r.served = 1;
    }
    out.push_back(std::move(layer));
    for (LayerSpec& split : splits) out.push_back(std::move(split));
  }
  spec.layers = std::move(out);
}

}  // namespace kinet
