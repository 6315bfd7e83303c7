#include "src/solver/lr_probe.h"

#include <algorithm>
#include <cmath>

#include "src/math/vec.h"

namespace kinet {
namespace {

// Whether a layer writes into the memory of `data`'s tops later on: then a further pass has to read
// the batch anew.
bool overwritten(Net& net, int data) {
  for (int i = data + 1; i < net.layer_count(); ++i) {
    if (net.layer(i).type().top_memory != TopMemory::kOwn) continue;
    for (const Tensor* top : net.tops(i)) {
      for (const Tensor* own : net.tops(data)) {
        if (top->data_buffer() == own->data_buffer()) return true;
      }
    }
  }
  return false;
}

std::vector<float> copy_of(std::span<const float> block) { return {block.begin(), block.end()}; }

}  // namespace

NetProbe::NetProbe(Net& net, std::span<const ParameterSegment> segments,
                   std::span<const float> last_update, Batch batch)
    : net_(net), segments_(segments), last_update_(last_update), batch_(std::move(batch)) {
  skipped_.resize(net.layer_count());
  reread_ = batch_.passes.size() > 1;
  for (int i = 0; i < net.layer_count(); ++i) {
    if (!net.layer(i).type().is_data) continue;
    skipped_[i] = true;
    reread_ = reread_ || overwritten(net, i);
  }
}

NetProbe::~NetProbe() { close(); }

// sum of lr_mult * (scale * gradient)^2
double NetProbe::slope() const {
  const std::span<const float> g = net_.gradient_arena();
  double sum = 0;
  for (const ParameterSegment& s : segments_) {
    sum += s.lr_mult * vec().sum_squares(static_cast<int64_t>(s.count), g.data() + s.offset);
  }
  return sum * batch_.scale * batch_.scale;
}

double NetProbe::alignment() const {
  const std::span<const float> g = net_.gradient_arena();
  double product = 0, gg = 0, uu = 0;
  for (const ParameterSegment& s : segments_) {
    const auto n = static_cast<int64_t>(s.count);
    product += vec().dot(n, g.data() + s.offset, last_update_.data() + s.offset);
    gg += vec().sum_squares(n, g.data() + s.offset);
    uu += vec().sum_squares(n, last_update_.data() + s.offset);
  }
  return gg > 0 && uu > 0 ? product / std::sqrt(gg * uu) : 0;
}

void NetProbe::open() {
  if (open_) return;
  weights_ = copy_of(net_.parameter_arena());
  buffers_ = copy_of(net_.buffer_arena());
  outputs_.clear();
  for (const Net::Output& output : net_.outputs()) {
    outputs_.emplace_back(output.tensor->data(), output.tensor->data() + output.tensor->count());
  }
  open_ = true;
}

void NetProbe::close() {
  if (!open_) return;
  std::copy(weights_.begin(), weights_.end(), net_.parameter_arena().begin());
  std::copy(buffers_.begin(), buffers_.end(), net_.buffer_arena().begin());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    std::copy(outputs_[i].begin(), outputs_[i].end(), net_.outputs()[i].tensor->data());
  }
  open_ = false;
}

void NetProbe::move(double rate) {
  const std::span<const float> g = net_.gradient_arena();
  std::span<float> w = net_.parameter_arena();
  for (const ParameterSegment& s : segments_) {
    const auto step = static_cast<float>(rate * batch_.scale * s.lr_mult);
    std::copy_n(weights_.data() + s.offset, s.count, w.data() + s.offset);
    vec().axpy(static_cast<int64_t>(s.count), -step, g.data() + s.offset, w.data() + s.offset);
  }
}

double NetProbe::forward(const Context& context) {
  if (reread_) return net_.forward(context);
  double loss = 0;
  for (int i = 0; i < net_.layer_count(); ++i) {
    if (!skipped_[i]) loss += net_.forward_layer(context, i);
  }
  return loss;
}

double NetProbe::loss_at(double rate) {
  open();
  move(rate);
  if (reread_) {
    for (size_t i = 0; i < batch_.positions.size(); ++i) {
      net_.batch_sources()[i]->seek(batch_.positions[i]);
    }
  }
  double sum = 0;
  for (const Context& context : batch_.passes) sum += forward(context);
  ++passes_;
  return sum / static_cast<double>(batch_.passes.size());
}

}  // namespace kinet
