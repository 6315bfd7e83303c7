#include "src/net/net.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "src/math/vec.h"
#include "src/net/net_builder.h"

namespace kinet {
namespace {

// The host's side of an arena, for a caller who may write it.
std::span<float> host_side(Buffer& arena, size_t floats) {
  if (arena.on_device()) {
    arena.to_host();
    arena.wait_pieces();
    arena.written_on_host();
  }
  return {arena.data(), floats};
}

}  // namespace

Net::Net(const ParamNode& net, const NetOptions& options, Net* training)
    : device_(options.device), spec_(make_net_spec(net, options.state)), threads_(options.threads) {
  NetBuilder(*this, options, training).build();
}

Net::~Net() = default;

double Net::forward(const Context& context) { return *forward(context, nullptr); }

std::optional<double> Net::forward(const Context& context, PassHook* hook) {
  if (device_ != nullptr) {
    if (!begin_forward(context, hook)) return std::nullopt;
    return finish_losses();
  }
  double loss = 0;
  for (int i = 0; i < layer_count(); ++i) {
    if (hook != nullptr && !hook->go_on()) return std::nullopt;
    loss += forward_layer(context, i);
  }
  return loss;
}

// Errors that do not say where they come from (no memory for a larger batch) get the layer's place.
void Net::reshape_layer(int i) {
  try {
    const bool here = layer_on_device(i);
    WorkspacePlan plan(scratch_, here ? 1 : threads_, here ? device_ : nullptr);
    const std::vector<Shape> tops = layers_[i]->reshape(seen_[i], plan);
    for (size_t t = 0; t < tops.size(); ++t) tops_[i][t]->resize(tops[t]);
  } catch (const Error& error) {
    rethrow_at_layer(spec_.layers[i], error);
  }
}

void Net::reshape_when_changed(int i) {
  const auto changed = [&](size_t b) { return bottoms_[i][b]->shape() != seen_[i][b]; };
  bool reshape = false;
  for (size_t b = 0; b < bottoms_[i].size(); ++b) reshape = reshape || changed(b);
  if (!reshape) return;
  for (size_t b = 0; b < bottoms_[i].size(); ++b) seen_[i][b] = bottoms_[i][b]->shape();
  reshape_layer(i);
}

double Net::forward_layer(const Context& context, int i) {
  reshape_when_changed(i);
  if (device_ != nullptr) {
    forward_moving(context, i);
    start_loss(i);
    return finish_losses();
  }
  layers_[i]->forward(context, bottoms_[i], tops_[i]);
  return read_loss(i);
}

double Net::read_loss(int i) {
  double loss = 0;
  for (size_t t = 0; t < tops_[i].size(); ++t) {
    const float weight = loss_weights_[i][t];
    if (weight != 0) loss += weight * vec().sum(tops_[i][t]->count(), tops_[i][t]->data());
  }
  return loss;
}

void Net::backward(const Context& context) { backward(context, nullptr); }

bool Net::backward(const Context& context, PassHook* hook) {
  if (device_ != nullptr) return backward_on_device(context, hook);
  for (int i = layer_count() - 1; i >= 0; --i) {
    if (hook != nullptr && runs_backward_[i] && !hook->go_on()) return false;
    run_backward(context, i);
    if (hook == nullptr) continue;
    for (const FloatRange& range : final_after_[i]) hook->gradients_final(range.from, range.to);
  }
  return true;
}

std::optional<double> Net::forward_backward(const Context& context, PassHook* hook) {
  if (device_ == nullptr) {
    const std::optional<double> loss = forward(context, hook);
    if (!loss || !std::isfinite(*loss)) return loss;
    return backward(context, hook) ? loss : std::nullopt;
  }
  if (!begin_forward(context, hook)) return std::nullopt;
  const bool whole = backward_on_device(context, hook);
  const double loss = finish_losses();
  return whole ? std::optional<double>(loss) : std::nullopt;
}

bool Net::layer_runs_backward(int layer) const { return runs_backward_[layer]; }

void Net::backward_layer(const Context& context, int i) {
  if (device_ == nullptr) return run_backward(context, i);
  backward_moving(context, i);
  device_->synchronize();
}

// A loss top starts the chain: d loss / d top is its weight. A top that no loss depends on (a Split
// top read by Accuracy only) has gradient zero.
void Net::run_backward(const Context& context, int i) {
  if (!runs_backward_[i]) return;
  for (size_t t = 0; t < tops_[i].size(); ++t) {
    Tensor& top = *tops_[i][t];
    const float weight = loss_weights_[i][t];
    if (weight != 0) {
      std::fill_n(top.diff(), top.count(), weight);
    } else if (!top_has_gradient_[i][t]) {
      std::fill_n(top.diff(), top.count(), 0.0f);
    }
  }
  layers_[i]->backward(context, tops_[i], bottoms_[i], masks_[i]);
}

void Net::zero_gradients() {
  if (!parameter_diff_) return;
  if (device_ != nullptr) {
    parameter_diff_->wait_pieces();
    device_->fill(parameter_diff_->device_data(), 0, parameter_floats_);
    parameter_diff_->written_on_device();
  } else {
    std::fill_n(parameter_diff_->data(), parameter_floats_, 0.0f);
  }
}

std::string Net::find_non_finite(const Context& context) {
  const auto bad = [](const Tensor& tensor, bool diff) {
    (diff ? tensor.diff_buffer() : tensor.data_buffer())->to_host();
    return !vec().all_finite(tensor.count(), diff ? tensor.diff() : tensor.data());
  };
  const auto report = [&](int i, const std::string& what) {
    return fmt::format("layer '{}' ({}): {}", layers_[i]->name(), layers_[i]->type().type, what);
  };
  for (int i = 0; i < layer_count(); ++i) {
    for (const Tensor& blob : layers_[i]->blobs()) {
      if (bad(blob, false)) return report(i, "its parameters");
    }
    forward_layer(context, i);
    for (size_t t = 0; t < tops_[i].size(); ++t) {
      if (bad(*tops_[i][t], false)) {
        return report(i, "its output '" + spec_.layers[i].tops[t] + "'");
      }
    }
  }
  zero_gradients();
  for (int i = layer_count() - 1; i >= 0; --i) {
    backward_layer(context, i);
    for (size_t j = 0; j < layers_[i]->blobs().size(); ++j) {
      const Tensor& blob = layers_[i]->blobs()[j];
      if (masks_[i].blob[j] && bad(blob, true)) {
        return report(i, fmt::format("the gradient of its parameter {}", j));
      }
    }
    for (size_t b = 0; b < bottoms_[i].size(); ++b) {
      if (masks_[i].bottom[b] && bad(*bottoms_[i][b], true)) {
        return report(i, "the gradient of its input '" + spec_.layers[i].bottoms[b] + "'");
      }
    }
  }
  return "";
}

int Net::layer_index(const std::string& name) const {
  for (int i = 0; i < layer_count(); ++i) {
    if (layers_[i]->name() == name) return i;
  }
  return -1;
}

Tensor* Net::blob(const std::string& name) const {
  const auto it = blobs_.find(name);
  return it == blobs_.end() ? nullptr : it->second;
}

int64_t Net::parameter_count() const {
  int64_t count = 0;
  for (const ParameterInfo& info : parameters_) {
    if (!info.is_buffer) count += static_cast<int64_t>(info.count);
  }
  return count;
}

std::span<float> Net::parameter_arena() { return host_side(*parameter_data_, parameter_floats_); }

std::span<float> Net::gradient_arena() {
  if (!parameter_diff_) return {};
  return host_side(*parameter_diff_, parameter_floats_);
}

std::span<float> Net::buffer_arena() { return host_side(*buffer_data_, buffer_floats_); }

void Net::move_gradients(std::span<float> memory, std::shared_ptr<void> owner) {
  KINET_CHECK(parameter_diff_ != nullptr, "net '{}' has no gradients", name());
  parameter_diff_->move_to(memory, std::move(owner));
}

void Net::use_gradients(std::span<float> memory, const std::shared_ptr<void>& owner) {
  KINET_CHECK(memory.size() == parameter_floats_, "net '{}' has {} gradients, not {}", name(),
              parameter_floats_, memory.size());
  parameter_diff_->change_to(memory, owner);
}

void Net::use_parameters(std::span<float> parameters, std::span<float> buffers,
                         const std::shared_ptr<void>& owner) {
  KINET_CHECK(parameters.size() == parameter_floats_ && buffers.size() == buffer_floats_,
              "net '{}' has {} parameters and {} buffers, not {} and {}", name(), parameter_floats_,
              buffer_floats_, parameters.size(), buffers.size());
  parameter_data_->change_to(parameters, owner);
  if (buffer_floats_ > 0) buffer_data_->change_to(buffers, owner);
  if (device_ != nullptr) begin_parameters_up();
}

// Each block of memory once, however many tensors lie in it.
uint64_t Net::activation_bytes() const {
  std::set<const Buffer*> blocks;
  uint64_t floats = scratch_->capacity();
  for (const auto& tensor : tensors_) {
    for (const Buffer* block : {tensor->data_buffer().get(), tensor->diff_buffer().get()}) {
      if (block != nullptr && blocks.insert(block).second) floats += block->capacity();
    }
  }
  for (size_t saved : saved_floats_) floats += saved;
  for (const auto& upload : uploads_) floats += upload != nullptr ? upload->device_floats() : 0;
  return floats * sizeof(float);
}

double Net::macs() const {
  double total = 0;
  for (const auto& layer : layers_) total += layer->macs();
  return total;
}

}  // namespace kinet
