#include "layers/batch_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

namespace {

const MessageType& batch_norm_fields() {
  static const MessageType type{
      "batch_norm_param",
      "Which statistics normalise.",
      {
          bool_field("use_global_stats", "",
                     "Whether the stored statistics are used instead of the batch's own. By "
                     "default by phase: the batch's in TRAIN, the stored ones in TEST."),
          float_field("moving_average_fraction", "0.999",
                      "How much of the stored sums stays when a batch is added, 0 to 1."),
          float_field("eps", "1e-5", "Added to the variance, so that a constant channel gives 0."),
      }};
  return type;
}

}  // namespace

LayerType BatchNormLayer::describe() {
  LayerType type;
  type.type = "BatchNorm";
  type.help = "Brings every channel to mean 0 and variance 1.";
  type.fields = {
      message_field("batch_norm_param", batch_norm_fields(), "Which statistics normalise.")};
  type.in_place = true;
  return type;
}

void BatchNormLayer::set_up(const std::vector<Shape>& bottoms) {
  const Params p = params("batch_norm_param");
  mode_given_ = p.has("use_global_stats");
  always_stored_ = mode_given_ && p.get_bool("use_global_stats");
  fraction_ = p.get_float("moving_average_fraction");
  eps_ = p.get_float("eps");
  if (!(fraction_ >= 0 && fraction_ <= 1)) {
    fail_here("moving_average_fraction must be from 0 to 1");
  }
  if (!(eps_ > 0)) fail_here("eps must be more than 0");
  const int64_t channels = bottoms.at(0).channels();
  declare_buffer({channels}, 0);
  declare_buffer({channels}, 0);
  declare_buffer({1}, 0);
}

std::vector<Shape> BatchNormLayer::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  const Shape& shape = bottoms.at(0);
  const int64_t channels = declared()[0].shape[0];
  if (shape.axes() < 1 || shape.channels() != channels) {
    fail_here(fmt::format("statistics of {} channels do not fit a bottom of shape {}", channels,
                          shape.str()));
  }
  broadcast_ = {shape.num(), channels, shape.axes() > 2 ? shape.count(2) : 1};
  for (auto* values : {&mean_, &variance_}) values->resize(static_cast<size_t>(channels));
  for (auto* values : {&center_, &inverse_std_}) values->resize(static_cast<size_t>(channels));
  return {shape};
}

bool BatchNormLayer::uses_stored(Phase phase) const {
  return mode_given_ ? always_stored_ : phase == Phase::kTest;
}

// Squares of floats are exact in double, so that E[x^2] - mean^2 may be used.
void BatchNormLayer::batch_statistics(int threads, const float* x) {
  const double m = static_cast<double>(broadcast_.outer * broadcast_.inner);
  broadcast_sum(threads, broadcast_, x, mean_.data());
  broadcast_dot(threads, broadcast_, x, x, variance_.data());
  for (size_t c = 0; c < mean_.size(); ++c) {
    mean_[c] /= m;
    const double variance = variance_[c] / m - mean_[c] * mean_[c];
    variance_[c] = variance < 0 ? 0 : variance;  // a NaN stays one
  }
}

// Before the first training pass nothing is stored. Variance 0 would then blow every value up by
// 1 / sqrt(eps) a layer, to infinity in a deep net; variance 1 passes values on as they are.
void BatchNormLayer::stored_statistics() {
  const double factor = blobs()[2].data()[0];
  for (size_t c = 0; c < mean_.size(); ++c) {
    mean_[c] = factor == 0 ? 0 : blobs()[0].data()[c] / factor;
    variance_[c] = factor == 0 ? 1 : blobs()[1].data()[c] / factor;
  }
}

void BatchNormLayer::update_buffers() {
  const double m = static_cast<double>(broadcast_.outer * broadcast_.inner);
  const double correction = m > 1 ? m / (m - 1) : 1;
  float *mean_sum = blobs()[0].data(), *variance_sum = blobs()[1].data();
  for (size_t c = 0; c < mean_.size(); ++c) {
    mean_sum[c] = static_cast<float>(fraction_ * mean_sum[c] + mean_[c]);
    variance_sum[c] = static_cast<float>(fraction_ * variance_sum[c] + correction * variance_[c]);
  }
  float& factor = blobs()[2].data()[0];
  factor = fraction_ * factor + 1;
}

void BatchNormLayer::forward(const Context& context, Tensors bottoms, Tensors tops) {
  used_stored_ = uses_stored(context.phase);
  if (used_stored_) {
    stored_statistics();
  } else {
    batch_statistics(context.threads, bottoms[0]->data());
    update_buffers();
  }
  for (size_t c = 0; c < mean_.size(); ++c) {
    center_[c] = static_cast<float>(mean_[c]);
    inverse_std_[c] = static_cast<float>(1 / std::sqrt(variance_[c] + eps_));
  }
  broadcast_normalize(context.threads, broadcast_, bottoms[0]->data(), center_.data(),
                      inverse_std_.data(), tops[0]->data());
}

void BatchNormLayer::backward(const Context& context, Tensors tops, Tensors bottoms,
                              const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const float *dy = tops[0]->diff(), *y = tops[0]->data();
  float* dx = bottoms[0]->diff();
  if (used_stored_) {
    broadcast_affine(context.threads, broadcast_, dy, inverse_std_.data(), nullptr, dx);
    return;
  }
  const double m = static_cast<double>(broadcast_.outer * broadcast_.inner);
  std::vector<double> mean_dy(mean_.size()), mean_dy_y(mean_.size());
  broadcast_sum(context.threads, broadcast_, dy, mean_dy.data());
  broadcast_dot(context.threads, broadcast_, dy, y, mean_dy_y.data());
  const int64_t rows = broadcast_.outer * broadcast_.count, inner = broadcast_.inner;
  parallel_for(context.threads, rows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t c = row % broadcast_.count;
      const float inverse = inverse_std_[c];
      const auto offset = static_cast<float>(-inverse * mean_dy[c] / m);
      vec().scale_shift(inner, inverse, offset, dy + row * inner, dx + row * inner);
      vec().axpy(inner, static_cast<float>(-inverse * mean_dy_y[c] / m), y + row * inner,
                 dx + row * inner);
    }
  });
}

std::string BatchNormLayer::summary() const {
  if (!mode_given_) return "statistics by phase";
  return always_stored_ ? "stored statistics" : "batch statistics";
}

KINET_REGISTER_LAYER(BatchNormLayer);

}  // namespace kinet
