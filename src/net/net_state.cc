// include / exclude rules: which layers of a file belong to the net of one state.
#include <algorithm>

#include "src/net/net_spec.h"

namespace kinet {
namespace {

const MessageType& rule_type() { return *layer_fields().find("include")->message; }

bool has_stage(const NetState& state, const std::string& stage) {
  return std::find(state.stages.begin(), state.stages.end(), stage) != state.stages.end();
}

// Everything that a rule states must hold; a rule that states nothing matches every state.
bool rule_matches(const Params& rule, const NetState& state) {
  if (rule.has("phase") && rule.get_enum("phase") != phase_name(state.phase)) return false;
  if (rule.has("min_level") && state.level < rule.get_int("min_level")) return false;
  if (rule.has("max_level") && state.level > rule.get_int("max_level")) return false;
  for (const std::string& stage : rule.get_strings("stage")) {
    if (!has_stage(state, stage)) return false;
  }
  for (const std::string& stage : rule.get_strings("not_stage")) {
    if (has_stage(state, stage)) return false;
  }
  return true;
}

bool any_matches(const ParamNode& layer, const char* field, const NetState& state) {
  const auto rules = layer.find_all(field);
  return std::any_of(rules.begin(), rules.end(), [&](const ParamNode* rule) {
    return rule_matches(Params(rule, &rule_type()), state);
  });
}

}  // namespace

bool layer_in_state(const ParamNode& layer, const NetState& state) {
  if (layer.find("include") != nullptr) return any_matches(layer, "include", state);
  return !any_matches(layer, "exclude", state);
}

NetState merge_state(const ParamNode& net, NetState state) {
  const Params own(net.find("state"), &net_state_fields());
  if (own.has("level")) state.level = static_cast<int>(own.get_int("level"));
  for (const std::string& stage : own.get_strings("stage")) {
    if (!has_stage(state, stage)) state.stages.push_back(stage);
  }
  return state;
}

}  // namespace kinet
