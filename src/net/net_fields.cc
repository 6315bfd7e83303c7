// The fields of a net file and those that all layers have in common.
#include <string>
#include <vector>

#include "src/net/net_spec.h"

namespace kinet {
namespace {

Field phase_field(const std::string& help) {
  return enum_field("phase", {{"TRAIN", 0}, {"TEST", 1}}, "", help);
}

const MessageType& rule_fields() {
  static const MessageType type{
      "include",
      "A rule on the net's state; a layer with include rules stays when one of them matches, a "
      "layer with exclude rules goes when one of them matches.",
      {phase_field("TRAIN or TEST"),
       int_field("min_level", "", "lowest level of the net's state that matches"),
       int_field("max_level", "", "highest level that matches"),
       repeated(string_field("stage", "", "a stage that the state must have")),
       repeated(string_field("not_stage", "", "a stage that the state must not have"))}};
  return type;
}

const MessageType& param_fields() {
  static const MessageType type{
      "param",
      "How the solver treats one parameter; the first `param` belongs to the first blob, and so "
      "on.",
      {string_field("name", "", "parameters of the same name are one parameter"),
       enum_field("share_mode", {{"STRICT", 0}, {"PERMISSIVE", 1}}, "STRICT",
                  "shared parameters must agree in shape (STRICT) or in count (PERMISSIVE)"),
       float_field("lr_mult", "1", "factor on the learning rate; 0 freezes the parameter"),
       float_field("decay_mult", "1", "factor on the weight decay")}};
  return type;
}

const MessageType& shape_fields() {
  static const MessageType type{"input_shape",
                                "Dimensions, outermost first.",
                                {repeated(wide(int_field("dim", "", "size of one axis")))}};
  return type;
}

}  // namespace

const MessageType& net_state_fields() {
  static const MessageType type{"state",
                                "What include and exclude rules are matched against.",
                                {phase_field("set by the program; given here it is only a default"),
                                 int_field("level", "0", "level of the state"),
                                 repeated(string_field("stage", "", "a stage of the state"))}};
  return type;
}

const MessageType& layer_fields() {
  static const MessageType type{
      "layer",
      "Fields that every layer has.",
      {string_field("name", "", "name of the layer; weights are found by it"),
       string_field("type", "", "registered type, for example \"Convolution\""),
       repeated(string_field("bottom", "", "a tensor the layer reads")),
       repeated(string_field("top", "", "a tensor the layer makes; the bottom's name: in place")),
       no_effect(phase_field("use include { phase: ... }")),
       repeated(float_field("loss_weight", "", "weight of each top in the loss (loss layers: 1)")),
       repeated(message_field("param", param_fields(), "settings of each parameter")),
       repeated(bool_field("propagate_down", "", "whether each bottom gets a gradient")),
       repeated(message_field("include", rule_fields(), "the layer stays when a rule matches")),
       repeated(message_field("exclude", rule_fields(), "the layer goes when a rule matches"))}};
  return type;
}

const MessageType& net_fields() {
  static const MessageType type{
      "net",
      "A net file: its layers in order.",
      {string_field("name", "", "name of the net"),
       repeated(string_field("input", "", "old form of an Input layer: a tensor fed from outside")),
       repeated(message_field("input_shape", shape_fields(), "shape of each input")),
       repeated(int_field("input_dim", "", "old form of input_shape: four numbers an input")),
       bool_field("force_backward", "false", "make gradients of the data tensors too"),
       message_field("state", net_state_fields(), "state of the net beyond its phase"),
       no_effect(bool_field("debug_info", "false", "Caffe prints means of every blob")),
       repeated(message_field("layer", layer_fields(), "a layer; file order is running order"))}};
  return type;
}

MessageType layer_fields_of(const LayerType& type) {
  MessageType all = layer_fields();
  all.fields.insert(all.fields.end(), type.fields.begin(), type.fields.end());
  return all;
}

}  // namespace kinet
