// A net on a device: what moves between host and device, and when.
//
// A layer runs on the device when it has a half there, else on the host. Before it runs, what it
// reads is brought to its side; after it, what it wrote is marked as newer there. Buffers know
// which sides are up to date, so values move only where a layer on the other side reads them. Tops
// that are their bottom (Reshape, Flatten, in forward also Split) move nothing.
//
// Batches of data layers come ahead of their use (batch_upload.h). Nothing waits while layers of
// the device follow each other. Losses are copied to page-locked memory in the device's order and
// read at the end of forward, together with the outputs, in one wait.
//
// Invariant: host memory that an upload reads is not written before the upload is over; a host
// layer waits for uploads before it fills its tops.
#include <algorithm>
#include <deque>

#include "src/base/check.h"
#include "src/math/vec.h"
#include "src/net/net.h"

namespace kinet {
namespace {

constexpr size_t kPiece = size_t{1} << 18;  // floats that go up at a time: 1 MiB

}  // namespace

// One layer's side.
struct Net::Side {
  Device* device;  // null: the host

  void bring_data(const Tensor& tensor) const { bring(*tensor.data_buffer(), tensor); }
  void bring_diff(const Tensor& tensor) const { bring(*tensor.diff_buffer(), tensor); }
  // Of a block that comes in pieces, those of the tensor are waited for.
  void bring(Buffer& buffer, const Tensor& tensor) const {
    if (device == nullptr) return buffer.to_host();
    buffer.to_device(tensor.offset() + static_cast<size_t>(tensor.count()));
  }
  void wrote(Buffer& buffer) const {
    if (device != nullptr) {
      buffer.written_on_device();
    } else {
      buffer.written_on_host();
    }
  }
  void fill(Tensor& top, float value) const {
    const auto count = static_cast<size_t>(top.count());
    if (device != nullptr) {
      device->fill(top.device_diff(), value, count);
    } else {
      std::fill_n(top.diff(), count, value);
    }
    wrote(*top.diff_buffer());
  }
};

// Final ranges of the gradient arena on their way to the host: a range is told one or more layers
// late, when its copy, which runs beside the layers, is over.
class Net::GradientDrain {
 public:
  GradientDrain(Device& device, Buffer& gradients, PassHook& hook)
      : device_(device), gradients_(gradients), hook_(hook) {}
  ~GradientDrain() {  // the pass was ended: nobody is told, but the copies must be over
    try {
      while (!ranges_.empty()) pop();
    } catch (const Error&) {  // the device has failed: the next call on it says so
    }
  }
  GradientDrain(const GradientDrain&) = delete;
  GradientDrain& operator=(const GradientDrain&) = delete;

  void begin(const std::vector<FloatRange>& ranges) {
    for (const FloatRange& r : ranges) {
      ranges_.push_back(
          {r, device_.download_aside(gradients_.data() + r.from, gradients_.device_data() + r.from,
                                     r.to - r.from)});
    }
  }
  void tell(size_t most_left) {
    while (ranges_.size() > most_left) {
      const FloatRange range = pop();
      hook_.gradients_final(range.from, range.to);
    }
  }

 private:
  struct Copy {
    FloatRange range;
    uint64_t ticket;
  };
  FloatRange pop() {
    const Copy copy = ranges_.front();
    ranges_.pop_front();
    device_.wait(copy.ticket);
    return copy.range;
  }

  Device& device_;
  Buffer& gradients_;
  PassHook& hook_;
  std::deque<Copy> ranges_;
};

// false: the hook has ended it. Losses are on their way: finish_losses().
bool Net::begin_forward(const Context& context, PassHook* hook) {
  pending_.clear();
  for (int i = 0; i < layer_count(); ++i) {
    if (hook != nullptr && !hook->go_on()) {
      device_->synchronize();  // no loss may arrive during the next pass
      return false;
    }
    reshape_when_changed(i);
    forward_moving(context, i);
    start_loss(i);
  }
  for (const Output& output : outputs_) output.tensor->data_buffer()->begin_to_host();
  begin_next_batches();
  return true;
}

// Here and behind backward, where a batch may be there that was not yet made after forward.
void Net::begin_next_batches() {
  for (const auto& upload : uploads_) {
    if (upload != nullptr) upload->begin_next();
  }
}

void Net::forward_moving(const Context& context, int i) {
  if (uploads_[i] != nullptr) return uploads_[i]->forward();
  if (fused_into_[i] >= 0) return;  // the layer before it has left the result where it belongs
  const Side side{layer_on_device(i) ? device_.get() : nullptr};
  Layer& layer = *layers_[i];
  Context here = context;
  here.device = side.device;
  const bool passes_on = layer.type().top_memory != TopMemory::kOwn;
  if (!passes_on) {
    for (Tensor* bottom : bottoms_[i]) side.bring_data(*bottom);
  }
  for (const Tensor& blob : layer.blobs()) side.bring_data(blob);
  if (side.device == nullptr) device_->finish_uploads();
  layer.forward(here, bottoms_[i], tops_[i]);
  if (!passes_on) {
    for (Tensor* top : tops_[i]) side.wrote(*top->data_buffer());
  }
  for (size_t j = 0; j < layer.blobs().size(); ++j) {
    if (layer.declared()[j].is_buffer) side.wrote(*layer.blobs()[j].data_buffer());
  }
}

// A scalar follows the layer in the device's order: what writes that memory later cannot change it.
// A loss of many values is summed on the host at once.
void Net::start_loss(int i) {
  for (size_t t = 0; t < tops_[i].size(); ++t) {
    const float weight = loss_weights_[i][t];
    if (weight == 0) continue;
    Tensor& top = *tops_[i][t];
    PendingLoss loss{weight, nullptr, 0};
    if (layer_on_device(i) && top.count() == 1) {
      float* const slot = loss_values_.get() + pending_.size();
      device_->download(slot, top.device_data(), 1);
      loss.coming = slot;
    } else {
      top.data_buffer()->to_host();
      loss.sum = vec().sum(top.count(), top.data());
    }
    pending_.push_back(loss);
  }
}

double Net::finish_losses() {
  device_->synchronize();
  double loss = 0;
  for (const PendingLoss& pending : pending_) {
    loss += pending.weight * (pending.coming != nullptr ? *pending.coming : pending.sum);
  }
  pending_.clear();
  return loss;
}

bool Net::backward_on_device(const Context& context, PassHook* hook) {
  std::optional<GradientDrain> drain;
  if (hook != nullptr && parameter_diff_ && hook->wants_gradients()) {
    drain.emplace(*device_, *parameter_diff_, *hook);
  }
  for (int i = layer_count() - 1; i >= 0; --i) {
    if (hook != nullptr && runs_backward_[i] && !hook->go_on()) return false;
    backward_moving(context, i);
    if (!drain) continue;
    drain->tell(0);  // what was begun before this layer
    for (const FloatRange& range : final_after_[i]) parameter_diff_->to_device(range.to);
    drain->begin(final_after_[i]);
  }
  if (drain) {
    drain->tell(0);
    parameter_diff_->now_equal();
  }
  begin_next_batches();
  return true;
}

void Net::backward_moving(const Context& context, int i) {
  if (!runs_backward_[i]) return;
  const Side side{layer_on_device(i) ? device_.get() : nullptr};
  Layer& layer = *layers_[i];
  const BackwardNeeds needs = layer.needs();
  for (size_t t = 0; t < tops_[i].size(); ++t) {
    Tensor& top = *tops_[i][t];
    const float weight = loss_weights_[i][t];
    if (weight != 0 || !top_has_gradient_[i][t]) side.fill(top, weight);
  }
  if (layer.type().top_memory == TopMemory::kSharesDataAndDiff) return;
  for (Tensor* top : tops_[i]) {
    if (top->has_diff()) side.bring_diff(*top);
    if (needs.top_data) side.bring_data(*top);
  }
  if (needs.bottom_data) {
    for (Tensor* bottom : bottoms_[i]) side.bring_data(*bottom);
  }
  for (size_t j = 0; j < layer.blobs().size(); ++j) {
    const Tensor& blob = layer.blobs()[j];
    side.bring_data(blob);
    if (masks_[i].blob[j]) side.bring_diff(blob);
  }
  Context here = context;
  here.device = side.device;
  layer.backward(here, tops_[i], bottoms_[i], masks_[i]);
  for (size_t b = 0; b < bottoms_[i].size(); ++b) {
    if (masks_[i].bottom[b]) side.wrote(*bottoms_[i][b]->diff_buffer());
  }
  for (size_t j = 0; j < layer.blobs().size(); ++j) {
    if (masks_[i].blob[j]) side.wrote(*layer.blobs()[j].diff_buffer());
  }
}

void Net::to_host() const {
  for (const auto& layer : layers_) {
    for (const Tensor& blob : layer->blobs()) blob.data_buffer()->to_host();
  }
}

void Net::edit_on_host() {
  to_host();
  for (const auto& layer : layers_) {
    for (const Tensor& blob : layer->blobs()) {
      Buffer& buffer = *blob.data_buffer();
      if (!buffer.on_device()) continue;
      buffer.wait_pieces();
      buffer.written_on_host();
    }
  }
}

float* Net::parameters_on_device() {
  parameter_data_->to_device();
  parameter_data_->written_on_device();
  return parameter_data_->device_data();
}

const float* Net::gradients_on_device() {
  parameter_diff_->to_device();
  return parameter_diff_->device_data();
}

void Net::begin_gradients_up(size_t from, size_t to) {
  if (from < to) parameter_diff_->begin_to_device(from, to);
}

void Net::gradients_are_up() { parameter_diff_->now_equal(); }

// In the order of layers: the first one can begin when its own have come.
void Net::begin_parameters_up() {
  for (size_t from = 0; from < parameter_floats_; from += kPiece) {
    parameter_data_->begin_to_device(from, std::min(from + kPiece, parameter_floats_));
  }
  parameter_data_->now_equal();
}

void Net::keep_buffers(Buffer& kept) const {
  if (device_ != nullptr && !kept.on_device()) kept.attach(device_);
  kept.reserve(buffer_floats_);
  if (device_ == nullptr) {
    std::copy_n(buffer_data_->data(), buffer_floats_, kept.data());
  } else if (buffer_floats_ > 0) {
    buffer_data_->to_device();
    device_->copy(kept.device_data(), buffer_data_->device_data(), buffer_floats_);
    kept.written_on_device();
  }
}

void Net::restore_buffers(Buffer& kept) {
  if (device_ == nullptr) {
    std::copy_n(kept.data(), buffer_floats_, buffer_data_->data());
  } else if (buffer_floats_ > 0) {
    buffer_data_->to_device();
    device_->copy(buffer_data_->device_data(), kept.device_data(), buffer_floats_);
    buffer_data_->written_on_device();
  }
}

}  // namespace kinet
