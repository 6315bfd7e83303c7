#include "src/cli/gpu_math.h"

#include <CLI/CLI.hpp>

#include "src/net/layer.h"

namespace kinet {
namespace {

constexpr char kField[] = "gpu_math";

// The message of the type that has the field ("convolution_param"), or null.
const Field* message_with_math(const ParamNode& layer) {
  const ParamNode* name = layer.find("type");
  const LayerType* type = name == nullptr ? nullptr : LayerRegistry::instance().find(name->text);
  if (type == nullptr) return nullptr;
  for (const Field& field : type->fields) {
    if (field.message != nullptr && field.message->find(kField) != nullptr) return &field;
  }
  return nullptr;
}

}  // namespace

void add_gpu_math_flag(CLI::App& app, std::string& math) {
  app.add_option("--gpu-math", math,
                 "what a GPU multiplies with, in all layers: FLOAT32, TF32, BF16")
      ->check(CLI::IsMember({"FLOAT32", "TF32", "BF16"}, CLI::ignore_case));
}

void set_gpu_math(ParamNode& net, const std::string& math) {
  if (math.empty()) return;
  for (ParamNode& layer : net.children) {
    const Field* field = layer.name == "layer" ? message_with_math(layer) : nullptr;
    if (field == nullptr) continue;
    ParamNode* message = layer.find(field->name);
    if (message == nullptr) message = &layer.add_message(field->name);
    message->erase(kField);
    message->add_scalar(kField, math);
  }
}

}  // namespace kinet
