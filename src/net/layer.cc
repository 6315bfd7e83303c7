#include "src/net/layer.h"

#include <algorithm>

#include "src/base/check.h"

namespace kinet {

void WorkspacePlan::saved(Workspace& workspace, size_t floats) {
  if (!workspace.buffer_) {
    workspace.buffer_ = std::make_shared<Buffer>();
    if (device_ != nullptr) workspace.buffer_->attach(device_);
  }
  workspace.buffer_->reserve(floats);
  workspace.size_ = floats;
  saved_floats_ += floats;
}

void WorkspacePlan::temporary(Workspace& workspace, size_t floats) {
  scratch_->reserve(floats);
  workspace.buffer_ = scratch_;
  workspace.size_ = floats;
}

void Layer::configure(std::string name, Phase phase, const ParamNode* node, const LayerType* type,
                      uint64_t seed, int tops) {
  name_ = std::move(name);
  phase_ = phase;
  node_ = node;
  type_ = type;
  seed_ = seed;
  top_count_ = tops;
}

// A layer without a backward of its own passes no gradient on: its mask must be empty.
void Layer::backward(const Context&, Tensors, Tensors, const BackwardMask& mask) {
  const bool asked = std::find(mask.bottom.begin(), mask.bottom.end(), true) != mask.bottom.end();
  if (asked) fail_here("cannot pass a gradient back");
}

bool Layer::can_propagate(int bottom) const {
  const auto& labels = type_->label_bottoms;
  return std::find(labels.begin(), labels.end(), bottom) == labels.end();
}

Params Layer::params(const std::string& field) const {
  for (const Field& f : type_->fields) {
    if (f.name == field && f.message != nullptr) return Params(node_->find(field), f.message);
  }
  fail_runtime("layer type {} does not declare a message '{}'", type_->type, field);
}

void Layer::fail_here(const std::string& message) const {
  fail_at(node_->where, fmt::format("layer '{}' ({}): {}", name_, type_->type, message));
}

void Layer::declare_parameter(Shape shape, FillerSpec filler) {
  declared_.push_back({std::move(shape), std::move(filler), false});
}

void Layer::declare_buffer(Shape shape, float value) {
  FillerSpec filler;
  filler.value = value;
  declared_.push_back({std::move(shape), std::move(filler), true});
}

Rng Layer::rng(RngPurpose purpose, uint64_t b, uint64_t c) const {
  return Rng(seed_, purpose, hash_name(name_), b, c);
}

}  // namespace kinet
