#include "tests/layer_test_util.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/base/check.h"

namespace kinet {
namespace {

std::vector<float> copy(const float* from, int64_t n) { return {from, from + n}; }

void assign(float* to, int64_t n, const std::vector<float>& values) {
  KINET_CHECK(static_cast<int64_t>(values.size()) == n, "{} values for a tensor of {}",
              values.size(), n);
  std::copy(values.begin(), values.end(), to);
}

// What the host holds goes to the device, or comes from it; nothing for layers on the host.
void upload(Buffer& buffer) {
  if (!buffer.on_device()) return;
  buffer.written_on_host();
  buffer.to_device();
}

void download(Buffer& buffer) {
  if (!buffer.on_device()) return;
  buffer.written_on_device();
  buffer.to_host();
}

// The layer's own messages against their declarations.
void validate_messages(const ParamNode& layer, const LayerType& type) {
  Diagnostics diagnostics;
  for (const Field& field : type.fields) {
    for (const ParamNode* node : layer.find_all(field.name)) {
      if (field.message) validate(*node, *field.message, "layer under test", diagnostics);
    }
  }
  diagnostics.throw_if_any();
}

}  // namespace

OneLayer::OneLayer(const std::string& text, const std::vector<Shape>& bottoms)
    : OneLayer(text, bottoms, Options{}) {}

OneLayer::OneLayer(const std::string& text, const std::vector<Shape>& bottoms,
                   const Options& options)
    : options_(options) {
  Diagnostics diagnostics;
  root_ = parse_prototxt(text, "test.prototxt", diagnostics);
  diagnostics.throw_if_any();
  const ParamNode* node = root_.find("layer");
  KINET_CHECK(node && node->find("type"), "no layer in: {}", text);
  const std::string type = node->find("type")->text;
  type_ = LayerRegistry::instance().find(type);
  KINET_CHECK(type_, "layer type '{}' is not registered", type);
  validate_messages(*node, *type_);
  int tops = static_cast<int>(node->find_all("top").size());
  if (type_->is_loss) tops = std::max(tops, 1);
  layer_ = options_.device ? options_.device->make_layer(type) : type_->make();
  KINET_CHECK(layer_, "layer type '{}' has no half on {}", type, options_.device->description());
  const ParamNode* name = node->find("name");
  layer_->configure(name ? name->text : "layer", options_.phase, node, type_, options_.seed, tops);
  context_ = {.phase = options_.phase, .threads = options_.threads, .seed = options_.seed};
  context_.device = options_.device.get();
  if (options_.device) scratch_->attach(options_.device);
  for (const Shape& shape : bottoms) {
    bottoms_.push_back(std::make_unique<Tensor>(shape));
    attach(*bottoms_.back());
  }
  for (const auto& bottom : bottoms_) bottom_pointers_.push_back(bottom.get());
  layer_->set_up(bottoms);
  make_blobs();
  for (int b = 0; b < bottom_count(); ++b) mask_.bottom.push_back(layer_->can_propagate(b));
  reshape(bottoms);
}

void OneLayer::make_blobs() {
  for (size_t i = 0; i < layer_->declared().size(); ++i) {
    const ParameterDecl& decl = layer_->declared()[i];
    Tensor blob(decl.shape, !decl.is_buffer);
    fill(decl.filler, decl.shape,
         Rng(options_.seed, RngPurpose::kFiller, hash_name(layer_->name()), i),
         {blob.data(), static_cast<size_t>(blob.count())});
    attach(blob);
    layer_->blobs().push_back(blob);
    mask_.blob.push_back(!decl.is_buffer);
  }
}

void OneLayer::reshape(const std::vector<Shape>& bottoms) {
  for (size_t b = 0; b < bottoms.size(); ++b) bottoms_[b]->resize(bottoms[b]);
  WorkspacePlan plan(scratch_, options_.device ? 1 : options_.threads, options_.device);
  make_tops(layer_->reshape(bottoms, plan));
}

void OneLayer::make_tops(const std::vector<Shape>& shapes) {
  std::vector<std::unique_ptr<Tensor>> tops;
  for (const Shape& shape : shapes) {
    const Tensor* first = bottoms_.empty() ? nullptr : bottoms_[0].get();
    const bool whole =
        type_->top_memory == TopMemory::kSharesDataAndDiff || (options_.in_place && tops.empty());
    if (whole) {
      tops.push_back(std::make_unique<Tensor>(shape, first->data_buffer(), first->diff_buffer()));
    } else if (type_->top_memory == TopMemory::kSharesData) {
      tops.push_back(
          std::make_unique<Tensor>(shape, first->data_buffer(), std::make_shared<Buffer>()));
    } else {
      tops.push_back(std::make_unique<Tensor>(shape));
    }
  }
  tops_ = std::move(tops);
  for (const auto& top : tops_) attach(*top);
  top_pointers_.clear();
  for (const auto& top : tops_) top_pointers_.push_back(top.get());
}

void OneLayer::set_bottom(int i, const std::vector<float>& values) {
  assign(bottom(i).data(), bottom(i).count(), values);
}

void OneLayer::set_blob(int i, const std::vector<float>& values) {
  assign(blob(i).data(), blob(i).count(), values);
}

void OneLayer::set_top_diff(int i, const std::vector<float>& values) {
  assign(top(i).diff(), top(i).count(), values);
}

void OneLayer::randomize(Tensor& tensor, uint64_t stream, bool diff) {
  Rng rng(7, RngPurpose::kTest, stream);
  float* to = diff ? tensor.diff() : tensor.data();
  for (int64_t i = 0; i < tensor.count(); ++i) to[i] = rng.gaussian();
}

void OneLayer::attach(Tensor& tensor) {
  if (!options_.device) return;
  for (const auto& buffer : {tensor.data_buffer(), tensor.diff_buffer()}) {
    if (buffer && !buffer->on_device()) buffer->attach(options_.device);
  }
}

void OneLayer::forward() {
  for (const auto& bottom : bottoms_) upload(*bottom->data_buffer());
  for (Tensor& blob : layer_->blobs()) upload(*blob.data_buffer());
  layer_->forward(context_, bottom_pointers_, top_pointers_);
  for (const auto& top : tops_) download(*top->data_buffer());
  for (Tensor& blob : layer_->blobs()) download(*blob.data_buffer());
}

void OneLayer::backward() {
  for (const auto* tensors : {&bottoms_, &tops_}) {
    for (const auto& tensor : *tensors) {
      upload(*tensor->data_buffer());
      upload(*tensor->diff_buffer());
    }
  }
  for (Tensor& blob : layer_->blobs()) {
    upload(*blob.data_buffer());
    if (blob.has_diff()) upload(*blob.diff_buffer());
  }
  layer_->backward(context_, top_pointers_, bottom_pointers_, mask_);
  for (const auto& bottom : bottoms_) download(*bottom->diff_buffer());
  for (Tensor& blob : layer_->blobs()) {
    if (blob.has_diff()) download(*blob.diff_buffer());
  }
}

std::vector<float> OneLayer::top_values(int i) { return data_of(top(i)); }
std::vector<float> OneLayer::bottom_values(int i) { return data_of(bottom(i)); }
std::vector<float> OneLayer::bottom_diffs(int i) { return diff_of(bottom(i)); }
std::vector<float> OneLayer::blob_diffs(int i) { return diff_of(blob(i)); }

std::vector<float> distinct_values(int64_t n, uint64_t stream) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  Rng rng(11, RngPurpose::kTest, stream);
  for (int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
  const double shift = 0.25 + 0.2 * static_cast<double>(stream % 3);
  std::vector<float> out(n);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>((static_cast<double>(order[i]) - n / 2.0 + shift) * 4.0 / n);
  }
  return out;
}

std::vector<float> data_of(const Tensor& tensor) { return copy(tensor.data(), tensor.count()); }
std::vector<float> diff_of(const Tensor& tensor) { return copy(tensor.diff(), tensor.count()); }

std::string compare(const std::vector<float>& a, const std::vector<double>& b, double tolerance) {
  if (a.size() != b.size()) return fmt::format("{} values instead of {}", a.size(), b.size());
  double squares = 0;
  for (double v : b) squares += v * v;
  const double rms = b.empty() ? 0 : std::sqrt(squares / static_cast<double>(b.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    const double bound = tolerance * std::max(std::abs(b[i]), rms);
    if (!(std::abs(a[i] - b[i]) <= bound)) {
      return fmt::format("element {}: {:.9g} instead of {:.9g} (allowed {:.3g})", i, a[i], b[i],
                         bound);
    }
  }
  return "";
}

std::string compare(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  return compare(a, std::vector<double>(b.begin(), b.end()), tolerance);
}

}  // namespace kinet
