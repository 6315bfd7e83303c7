// From a parsed net file to the list of layers of one phase: checks the fields of every phase and
// stage, filters by include/exclude rules, inserts Split layers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/net/layer.h"
#include "src/prototxt/fields.h"

namespace kinet {

// What include/exclude rules are matched against (Caffe's NetState).
struct NetState {
  Phase phase = Phase::kTrain;
  int level = 0;
  std::vector<std::string> stages;
};

// One `param {}` entry of a layer.
struct ParamSpec {
  std::string name;                          // "" = not shared by name
  bool permissive = false;                   // share_mode: same count is enough
  std::optional<float> lr_mult, decay_mult;  // unset: 1
  Position where;
};

struct LayerSpec {
  std::string name, type;
  const LayerType* layer_type = nullptr;
  std::vector<std::string> bottoms, tops;
  std::vector<ParamSpec> params;
  std::vector<float> loss_weights;   // one for each top, or empty
  std::vector<bool> propagate_down;  // one for each bottom, or empty
  std::shared_ptr<const ParamNode> node;
};

struct NetSpec {
  std::string name;
  NetState state;
  bool force_backward = false;
  std::vector<LayerSpec> layers;
};

// The fields of a net file and those common to all layers.
const MessageType& net_fields();
const MessageType& layer_fields();
const MessageType& net_state_fields();
// Common fields and those of one type together.
MessageType layer_fields_of(const LayerType& type);

// Reads a net file into the new form: parsed, V1 upgraded, `input:` fields turned into Input
// layers, every layer of every phase checked. Throws Error with all that is wrong; notes go to
// `notes`.
ParamNode load_net_file(const std::string& path, std::vector<std::string>* notes = nullptr);
// The same for a tree that was parsed already (net_param inside a solver file).
ParamNode prepare_net(ParamNode root, std::vector<std::string>* notes = nullptr);

// The state that the net file itself asks for (state {}), laid under `state`: phase of `state`
// wins, level and stages are added.
NetState merge_state(const ParamNode& net, NetState state);

// The layers of one state, with Split layers where a blob is read more than once. Throws Error with
// all that is wrong (unknown bottoms, blobs made twice, wrong counts of bottoms and tops ...).
NetSpec make_net_spec(const ParamNode& net, const NetState& state);

// Throws `error` again, of the same kind, with the layer's place and name in front unless its
// message begins with a place of that file already.
[[noreturn]] void rethrow_at_layer(const LayerSpec& layer, const Error& error);

// Only the rules of include/exclude: whether a layer is in the net of that state.
bool layer_in_state(const ParamNode& layer, const NetState& state);

}  // namespace kinet
