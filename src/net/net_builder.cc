// The first half of building a net: layers, shapes, gradients, memory. Parameters are bound in
// net_parameters.cc; what is one kernel on a device is decided in net_fusion.cc.
#include "src/net/net_builder.h"

#include <algorithm>

#include "src/base/memory.h"
#include "src/base/text.h"

namespace kinet {

void NetBuilder::build() {
  trace_values();
  make_layers();
  decide_gradients();
  const MemoryPlan plan =
      plan_memory(net_, values_, bottom_values_, top_values_, net_.runs_backward_);
  net_.notes_ = plan.notes;
  fuse_relus(plan);
  check_fits(plan);
  bind_parameters();  // the smaller part: what does not fit is found before the tops are touched
  allocate_tensors(plan);
  list_outputs();
  if (options_.device != nullptr) make_batch_uploads();
}

void NetBuilder::fail_layer(int layer, const std::string& message) const {
  const LayerSpec& spec = net_.spec_.layers[layer];
  fail_at(spec.node->where, fmt::format("layer '{}' ({}): {}", spec.name, spec.type, message));
}

// Gives every version of every blob a number and finds its reader.
void NetBuilder::trace_values() {
  const auto& layers = net_.spec_.layers;
  bottom_values_.resize(layers.size());
  top_values_.resize(layers.size());
  std::map<std::string, int> latest;
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    for (const std::string& bottom : layers[i].bottoms) {
      const int value = latest.at(bottom);
      values_[value].reader = i;
      values_[value].bottom = static_cast<int>(bottom_values_[i].size());
      bottom_values_[i].push_back(value);
    }
    for (const std::string& top : layers[i].tops) {
      NetValue value;
      value.blob = top;
      value.maker = i;
      value.top = static_cast<int>(top_values_[i].size());
      latest[top] = static_cast<int>(values_.size());
      top_values_[i].push_back(latest[top]);
      values_.push_back(std::move(value));
    }
  }
}

// Errors that do not say where they come from (an axis out of range) get the layer's place.
// Counting finds shapes beyond the limit; after it, sizes may be multiplied freely.
std::vector<Shape> NetBuilder::set_up(int i, Layer& layer, const std::vector<Shape>& bottoms,
                                      WorkspacePlan& plan) {
  try {
    layer.set_up(bottoms);
    for (const ParameterDecl& declared : layer.declared()) declared.shape.count();
    const std::vector<Shape> tops = layer.reshape(bottoms, plan);
    for (const Shape& top : tops) top.count();
    return tops;
  } catch (const Error& error) {
    rethrow_at_layer(net_.spec_.layers[i], error);
  }
}

// A layer that fails to set up does not hide the faults of others: only those that read its tops
// are left out, and all messages come in one Error.
void NetBuilder::make_layers() {
  net_.scratch_ = new_buffer();
  std::vector<std::string> errors;
  for (int i = 0; i < static_cast<int>(net_.spec_.layers.size()); ++i) {
    const auto& bottoms = bottom_values_[i];
    bool known = std::all_of(bottoms.begin(), bottoms.end(),
                             [&](int value) { return values_[value].shape_known; });
    try {
      if (known) make_layer(i);
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kUser) throw;
      errors.push_back(error.what());
      known = false;
    }
    for (int value : top_values_[i]) values_[value].shape_known = known;
  }
  if (!errors.empty()) throw Error(join(errors, "\n"));
}

// The half of the layer that runs where the net is. What has none on a device and needs none stays
// on the host.
std::unique_ptr<Layer> NetBuilder::make_half(int i) {
  const LayerSpec& spec = net_.spec_.layers[i];
  net_.on_device_.resize(i + 1, false);
  if (options_.device == nullptr) return spec.layer_type->make();
  std::unique_ptr<Layer> half = options_.device->make_layer(spec.type);
  net_.on_device_[i] = half != nullptr;
  if (half != nullptr) return half;
  if (spec.layer_type->host_ok) return spec.layer_type->make();
  fail_layer(i, fmt::format("type {} does not run on {}\nhint: run this net on the CPU with "
                            "solver_mode: CPU",
                            spec.type, options_.device->description()));
}

void NetBuilder::make_layer(int i) {
  const LayerSpec& spec = net_.spec_.layers[i];
  std::unique_ptr<Layer> layer = make_half(i);
  layer->configure(spec.name, net_.spec_.state.phase, spec.node.get(), spec.layer_type,
                   options_.seed, static_cast<int>(spec.tops.size()));
  std::vector<Shape> bottoms;
  for (int value : bottom_values_[i]) bottoms.push_back(values_[value].shape);
  WorkspacePlan plan(net_.scratch_, net_.on_device_[i] ? 1 : options_.threads,
                     net_.on_device_[i] ? options_.device : nullptr);
  const std::vector<Shape> tops = set_up(i, *layer, bottoms, plan);
  if (!layer->declared().empty() && !owners_.insert(spec.name).second) {
    fail_layer(i,
               "another layer with parameters has the same name; weights are found by name, so "
               "give it another");
  }
  if (tops.size() != spec.tops.size()) {
    fail_layer(i, fmt::format("makes {} tops but {} are named", tops.size(), spec.tops.size()));
  }
  for (size_t t = 0; t < tops.size(); ++t) values_[top_values_[i][t]].shape = tops[t];
  net_.saved_floats_.push_back(plan.saved_floats());
  net_.seen_.push_back(std::move(bottoms));
  std::vector<float> weights = spec.loss_weights;
  if (weights.empty()) {
    weights.assign(spec.tops.size(), 0.0f);
    if (spec.layer_type->is_loss) weights[0] = 1;
  }
  net_.loss_weights_.push_back(std::move(weights));
  if (BatchSource* source = layer->batch_source()) net_.sources_.push_back(source);
  net_.layers_.push_back(std::move(layer));
}

// Downwards: which bottoms could get a gradient that somebody wants. Upwards: which layers lie
// under a loss. Backward runs where both hold.
void NetBuilder::decide_gradients() {
  const int n = net_.layer_count();
  net_.masks_.resize(n);
  net_.runs_backward_.assign(n, false);
  net_.top_has_gradient_.resize(n);
  for (int i = 0; i < n; ++i) decide_downwards(i);
  for (int i = n - 1; i >= 0; --i) {
    decide_upwards(i);
    for (int value : top_values_[i]) {
      net_.top_has_gradient_[i].push_back(values_[value].under_loss);
    }
  }
}

// A test net has no backward, hence no gradients to keep.
bool NetBuilder::learns() const {
  return net_.spec_.state.phase == Phase::kTrain || net_.spec_.force_backward;
}

void NetBuilder::decide_downwards(int i) {
  const LayerSpec& spec = net_.spec_.layers[i];
  const Layer& layer = *net_.layers_[i];
  BackwardMask& mask = net_.masks_[i];
  bool wants = false;
  for (size_t b = 0; b < bottom_values_[i].size(); ++b) {
    const bool possible = layer.can_propagate(static_cast<int>(b));
    bool wanted = values_[bottom_values_[i][b]].wants_gradient || net_.spec_.force_backward;
    if (!spec.propagate_down.empty()) {
      wanted = spec.propagate_down[b];
      if (wanted && !possible) {
        fail_layer(i, fmt::format("propagate_down asks for a gradient of bottom '{}', which this "
                                  "layer cannot give",
                                  spec.bottoms[b]));
      }
    }
    mask.bottom.push_back(wanted && possible);
    wants = wants || mask.bottom.back();
  }
  for (size_t j = 0; j < layer.declared().size(); ++j) {
    const bool frozen = layer.declared()[j].is_buffer ||
                        (j < spec.params.size() && spec.params[j].lr_mult.value_or(1) == 0);
    mask.blob.push_back(!frozen);
    wants = wants || !frozen;
  }
  for (int value : top_values_[i]) values_[value].wants_gradient = wants;
  net_.runs_backward_[i] = wants && learns();
}

void NetBuilder::decide_upwards(int i) {
  BackwardMask& mask = net_.masks_[i];
  bool contributes = false;
  for (size_t t = 0; t < top_values_[i].size(); ++t) {
    NetValue& value = values_[top_values_[i][t]];
    value.under_loss = value.under_loss || net_.loss_weights_[i][t] != 0;
    contributes = contributes || value.under_loss;
  }
  net_.runs_backward_[i] = net_.runs_backward_[i] && contributes;
  if (!net_.runs_backward_[i]) {
    mask.bottom.assign(mask.bottom.size(), false);
    mask.blob.assign(mask.blob.size(), false);
    return;
  }
  for (size_t b = 0; b < bottom_values_[i].size(); ++b) {
    NetValue& value = values_[bottom_values_[i][b]];
    value.under_loss = mask.bottom[b];
    value.has_diff = mask.bottom[b];
  }
  for (int value : top_values_[i]) values_[value].has_diff = true;
}

// A net larger than the machine is refused before its memory is touched, at the layer whose top
// goes beyond.
void NetBuilder::check_fits(const MemoryPlan& plan) {
  std::map<int, int64_t> data, diff;  // floats of each block
  const auto add = [this](std::map<int, int64_t>& blocks, int id, int64_t count) {
    const int64_t more = std::max<int64_t>(0, count - blocks[id]);
    blocks[id] += more;
    top_floats_ += static_cast<uint64_t>(more);
  };
  for (size_t v = 0; v < values_.size(); ++v) {
    const NetValue& value = values_[v];
    const int64_t count = value.shape.count();
    add(data, plan.data_class[v], count);
    if (value.has_diff) add(diff, plan.diff_class[v], count);
    try {
      const std::string what = fmt::format("top '{}' of shape {}, with the tops before it,",
                                           value.blob, value.shape.str());
      if (const Device* device = options_.device.get()) {
        check_memory(top_floats_, what, device->description(), device->memory_bytes());
      } else {
        check_memory(top_floats_, what);
      }
    } catch (const Error& error) {
      rethrow_at_layer(net_.spec_.layers[value.maker], error);
    }
  }
}

std::shared_ptr<Buffer> NetBuilder::new_buffer() const {
  auto buffer = std::make_shared<Buffer>();
  if (options_.device != nullptr) buffer->attach(options_.device);
  return buffer;
}

void NetBuilder::allocate_tensors(const MemoryPlan& plan) {
  std::map<int, std::shared_ptr<Buffer>> data, diff;
  const auto buffer = [this](auto& buffers, int id) {
    std::shared_ptr<Buffer>& b = buffers[id];
    if (!b) b = new_buffer();
    return b;
  };
  for (size_t v = 0; v < values_.size(); ++v) {
    const std::shared_ptr<Buffer> own_diff =
        values_[v].has_diff ? buffer(diff, plan.diff_class[v]) : nullptr;
    try {
      net_.tensors_.push_back(
          std::make_unique<Tensor>(values_[v].shape, buffer(data, plan.data_class[v]), own_diff));
      if (options_.device != nullptr) {  // what does not fit is to be found here, not in a pass
        net_.tensors_.back()->device_data();
        if (own_diff) own_diff->device_data();
      }
    } catch (const Error& error) {
      rethrow_at_layer(net_.spec_.layers[values_[v].maker], error);
    }
    net_.blobs_[values_[v].blob] = net_.tensors_.back().get();
  }
  for (int i = 0; i < net_.layer_count(); ++i) {
    net_.bottoms_.emplace_back();
    net_.tops_.emplace_back();
    for (int value : bottom_values_[i]) net_.bottoms_[i].push_back(net_.tensors_[value].get());
    for (int value : top_values_[i]) net_.tops_[i].push_back(net_.tensors_[value].get());
  }
}

void NetBuilder::list_outputs() {
  if (options_.device != nullptr) {
    size_t losses = 0;
    for (const auto& weights : net_.loss_weights_) losses += weights.size();
    net_.loss_values_ = options_.device->allocate_host(losses);
  }
  for (const NetValue& value : values_) {
    if (value.reader >= 0) continue;
    net_.outputs_.push_back(
        {value.blob, net_.tops_[value.maker][value.top], loss_weight(value.maker, value.top)});
  }
}

void NetBuilder::make_batch_uploads() {
  const auto readers = [this](Tensor* top) {
    BatchUpload::Top read{top};
    const auto is_it = [top](const Tensor* other) {
      return other->data_buffer() == top->data_buffer();
    };
    for (int i = 0; i < net_.layer_count(); ++i) {
      if (net_.layers_[i]->type().top_memory != TopMemory::kOwn) continue;
      if (!std::any_of(net_.bottoms_[i].begin(), net_.bottoms_[i].end(), is_it)) continue;
      (net_.on_device_[i] ? read.on_device : read.on_host) = true;
    }
    for (const Net::Output& output : net_.outputs_) read.on_host |= is_it(output.tensor);
    return read;
  };
  for (int i = 0; i < net_.layer_count(); ++i) {
    net_.uploads_.emplace_back();
    auto* const feed = dynamic_cast<BatchFeed*>(net_.layers_[i].get());
    if (feed == nullptr) continue;
    std::vector<BatchUpload::Top> tops;
    for (Tensor* top : net_.tops_[i]) tops.push_back(readers(top));
    try {
      net_.uploads_.back() = std::make_unique<BatchUpload>(options_.device, *feed, std::move(tops));
    } catch (const Error& error) {
      rethrow_at_layer(net_.spec_.layers[i], error);
    }
  }
}

}  // namespace kinet
