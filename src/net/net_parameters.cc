// The second half of building a net: parameters get their place in the arenas, shared ones one
// place for all, those of a test net the place they have in the training net.
#include "src/base/memory.h"
#include "src/net/net_builder.h"

namespace kinet {
namespace {

constexpr size_t kAlignFloats = 16;  // 64 bytes: no two parameters share a cache line

size_t align(size_t floats) { return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats; }

}  // namespace

void NetBuilder::bind_parameters() {
  net_.parameter_data_ = new_buffer();
  net_.buffer_data_ = new_buffer();
  if (learns()) net_.parameter_diff_ = new_buffer();
  for (int i = 0; i < net_.layer_count(); ++i) bind_layer(i);
  net_.parameter_data_->reserve(net_.parameter_floats_);
  if (learns()) net_.parameter_diff_->reserve(net_.parameter_floats_);
  net_.buffer_data_->reserve(net_.buffer_floats_);
  plan_final_ranges();
  fill_parameters();
  if (options_.device == nullptr) return;
  net_.parameter_data_->written_on_host();
  net_.buffer_data_->written_on_host();
}

void NetBuilder::bind_layer(int i) {
  const LayerSpec& spec = net_.spec_.layers[i];
  Layer& layer = *net_.layers_[i];
  const size_t blobs = layer.declared().size();
  if (spec.params.size() > blobs) {
    fail_at(spec.params[blobs].where,
            fmt::format("layer '{}' ({}): {} param entries, but the layer has {} parameters and "
                        "buffers",
                        spec.name, spec.type, spec.params.size(), blobs));
  }
  info_of_.emplace_back(blobs, -1);
  for (size_t j = 0; j < blobs; ++j) {
    layer.blobs().push_back(bind_blob(i, static_cast<int>(j)));
  }
}

// Reserves room first and resolves pointers later: a Tensor finds its memory through the buffer.
Tensor NetBuilder::bind_blob(int i, int j) {
  const LayerSpec& spec = net_.spec_.layers[i];
  const ParameterDecl& decl = net_.layers_[i]->declared()[j];
  const ParamSpec param = j < static_cast<int>(spec.params.size()) ? spec.params[j] : ParamSpec{};
  if (decl.is_buffer && param.lr_mult.value_or(0) != 0) {
    fail_at(param.where,
            fmt::format("layer '{}' ({}): blob {} is a buffer that the layer keeps itself; its "
                        "lr_mult must be 0 (or left out)",
                        spec.name, spec.type, j));
  }
  if (training_ != nullptr) {
    const int source = training_->layer_index(spec.name);
    if (source >= 0 && !training_->layer(source).blobs().empty()) {
      return bind_to_training(i, j, training_->layer(source));
    }
  }
  const auto owner = param.name.empty() ? shared_.end() : shared_.find(param.name);
  if (owner != shared_.end()) return share_by_name(i, j, param, owner->second);

  ParameterInfo info;
  info.name = param.name.empty() ? fmt::format("{}[{}]", spec.name, j) : param.name;
  info.layer = spec.name;
  info.blob = j;
  info.shape = decl.shape;
  info.is_buffer = decl.is_buffer;
  info.count = static_cast<size_t>(decl.shape.count());
  size_t& floats = decl.is_buffer ? net_.buffer_floats_ : net_.parameter_floats_;
  info.offset = floats;
  info.lr_mult = decl.is_buffer ? 0 : param.lr_mult.value_or(1);
  info.decay_mult = decl.is_buffer ? 0 : param.decay_mult.value_or(1);
  floats = align(floats + info.count);
  try {
    check_memory(
        decl.is_buffer || !learns() ? floats : 2 * floats,
        fmt::format("parameter {} of shape {}, with all tops and the parameters before it,", j,
                    decl.shape.str()));
  } catch (const Error& error) {
    rethrow_at_layer(spec, error);
  }
  info_of_[i][j] = static_cast<int>(net_.parameters_.size());
  if (!param.name.empty()) shared_[param.name] = info_of_[i][j];
  net_.parameters_.push_back(std::move(info));
  return Tensor::view(decl.shape, decl.is_buffer ? net_.buffer_data_ : net_.parameter_data_,
                      decl.is_buffer ? nullptr : net_.parameter_diff_,
                      net_.parameters_.back().offset);
}

Tensor NetBuilder::bind_to_training(int i, int j, const Layer& source) {
  const Layer& layer = *net_.layers_[i];
  const ParameterDecl& decl = layer.declared()[j];
  if (source.blobs().size() != layer.declared().size()) {
    fail_layer(i, fmt::format("has {} parameters and buffers, but the training net's layer of that "
                              "name has {}",
                              layer.declared().size(), source.blobs().size()));
  }
  const Tensor& blob = source.blobs()[j];
  if (blob.shape() != decl.shape) {
    fail_layer(i, fmt::format("blob {} is {} here but {} in the training net's layer of that name",
                              j, decl.shape.str(), blob.shape().str()));
  }
  return Tensor::view(decl.shape, blob.data_buffer(), blob.diff_buffer(), blob.offset());
}

Tensor NetBuilder::share_by_name(int i, int j, const ParamSpec& spec, int owner) {
  const ParameterDecl& decl = net_.layers_[i]->declared()[j];
  ParameterInfo& info = net_.parameters_[owner];
  const bool fits = spec.permissive ? static_cast<size_t>(decl.shape.count()) == info.count
                                    : decl.shape == info.shape;
  if (!fits || decl.is_buffer != info.is_buffer) {
    fail_at(spec.where,
            fmt::format("layer '{}': parameter '{}' is {} here but {} in layer '{}', which owns it",
                        net_.layers_[i]->name(), spec.name, decl.shape.str(), info.shape.str(),
                        info.layer));
  }
  const auto agree = [&](const std::optional<float>& here, float there, const char* what) {
    if (!here || *here == there) return;
    fail_at(spec.where,
            fmt::format("layer '{}': {} {} of the shared parameter '{}' differs from "
                        "{} in layer '{}', which owns it",
                        net_.layers_[i]->name(), what, *here, spec.name, there, info.layer));
  };
  agree(spec.lr_mult, info.lr_mult, "lr_mult");
  agree(spec.decay_mult, info.decay_mult, "decay_mult");
  if (net_.masks_[i].blob[j] && info.lr_mult == 0) net_.masks_[i].blob[j] = false;
  info_of_[i][j] = owner;
  return Tensor::view(decl.shape, net_.parameter_data_, net_.parameter_diff_, info.offset);
}

// A gradient is final after the first layer of the net (backward's last) that adds to it. A
// parameter that no layer adds to, and padding, belong to the range behind them, so that ranges are
// few.
void NetBuilder::plan_final_ranges() {
  net_.final_after_.resize(net_.layer_count());
  if (!learns()) return;
  std::map<size_t, int> last_adder;  // offset of the parameter -> layer
  for (int i = net_.layer_count() - 1; i >= 0; --i) {
    const std::vector<Tensor>& blobs = net_.layers_[i]->blobs();
    for (size_t j = 0; j < blobs.size(); ++j) {
      const bool ours = blobs[j].diff_buffer() == net_.parameter_diff_;
      if (net_.masks_[i].blob[j] && ours) last_adder[blobs[j].offset()] = i;
    }
  }
  size_t end = net_.parameter_floats_;
  int layer = net_.layer_count() - 1;
  for (auto info = net_.parameters_.rbegin(); info != net_.parameters_.rend(); ++info) {
    if (info->is_buffer) continue;
    const auto adder = last_adder.find(info->offset);
    if (adder != last_adder.end()) layer = adder->second;
    auto& ranges = net_.final_after_[layer];
    if (!ranges.empty() && ranges.back().from == end) {
      ranges.back().from = info->offset;
    } else if (end > info->offset) {
      ranges.push_back({info->offset, end});
    }
    end = info->offset;
  }
}

// Each parameter starts from a generator keyed by (seed, owner layer, blob): adding a layer or
// changing the thread count changes no other parameter.
void NetBuilder::fill_parameters() {
  for (const ParameterInfo& info : net_.parameters_) {
    Layer& layer = *net_.layers_[net_.layer_index(info.layer)];
    Tensor& blob = layer.blobs()[info.blob];
    fill(layer.declared()[info.blob].filler, info.shape,
         Rng(options_.seed, RngPurpose::kFiller, hash_name(info.layer), info.blob),
         std::span<float>(blob.data(), info.count));
  }
}

}  // namespace kinet
