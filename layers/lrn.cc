#include "layers/lrn.h"

#include <fmt/format.h>

#include <algorithm>

#include "layers/engine_field.h"
#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {

namespace {

constexpr int64_t kStripFloats = 16 * 1024;  // 64 KB: the strips a thread works on stay in cache

const MessageType& lrn_fields() {
  static const MessageType type{
      "lrn_param",
      "Size of the neighbourhood and strength of the normalisation.",
      {
          uint_field("local_size", "5", "Width of the neighbourhood, in channels or pixels; odd."),
          float_field("alpha", "1", "Factor of the mean square of the neighbourhood."),
          float_field("beta", "0.75", "Exponent."),
          enum_field("norm_region", {{"ACROSS_CHANNELS", 0}, {"WITHIN_CHANNEL", 1}},
                     "ACROSS_CHANNELS",
                     "Whether neighbours are the same pixel of other channels or other pixels of "
                     "the same channel."),
          float_field("k", "1",
                      "Added to the weighted mean square; ACROSS_CHANNELS only, otherwise 1."),
          engine_field(),
      }};
  return type;
}

}  // namespace

LayerType LrnLayer::describe() {
  LayerType type;
  type.type = "LRN";
  type.help = "Local response normalisation: divides by the activity of the neighbourhood.";
  type.fields = {message_field("lrn_param", lrn_fields(), "Size and strength.")};
  return type;
}

void LrnLayer::set_up(const std::vector<Shape>&) {
  const Params p = params("lrn_param");
  size_ = p.get_int("local_size");
  alpha_ = p.get_float("alpha");
  beta_ = p.get_float("beta");
  across_ = p.get_enum("norm_region") == "ACROSS_CHANNELS";
  k_ = across_ ? p.get_float("k") : 1.0f;
  if (size_ % 2 == 0) fail_here(fmt::format("local_size must be odd, but is {}", size_));
  const auto size = static_cast<float>(size_);
  factor_ = alpha_ / (across_ ? size : size * size);
}

std::vector<Shape> LrnLayer::reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) {
  shape_ = bottoms.at(0);
  if (shape_.axes() != 4) {
    fail_here(fmt::format("normalises images, N x C x H x W; its bottom is {}", shape_.str()));
  }
  const int64_t pixels = shape_.height() * shape_.width();
  if (across_) {
    const int64_t fitting = kStripFloats / std::max<int64_t>(1, shape_.channels());
    strip_ = std::clamp<int64_t>(fitting, 16, std::max<int64_t>(16, pixels));
    strips_ = (pixels + strip_ - 1) / strip_;
    tiles_ = shape_.num() * strips_;
    scratch_floats_ = shape_.channels() * strip_ + strip_;
  } else {
    tiles_ = shape_.num() * shape_.channels();
    scratch_floats_ = 3 * pixels;
  }
  planned_threads_ = plan.threads();
  plan.saved(scale_, static_cast<size_t>(shape_.count()));
  plan.temporary(scratch_, static_cast<size_t>(planned_threads_ * scratch_floats_));
  return {shape_};
}

LrnLayer::Tile LrnLayer::tile(int64_t index) const {
  const int64_t pixels = shape_.height() * shape_.width();
  if (!across_) return {index * pixels, shape_.height(), shape_.width(), shape_.width()};
  const int64_t at = index % strips_ * strip_;
  return {index / strips_ * shape_.channels() * pixels + at, shape_.channels(),
          std::min(strip_, pixels - at), pixels};
}

// ---- one tile; `values` and `scratch` are dense, rows x length
// -----------------------------------

// WITHIN_CHANNEL: the sums along each row. ACROSS_CHANNELS: the values as they are.
const float* LrnLayer::sum_columns(const Tile& tile, const float* values, float* out) const {
  if (across_) return values;
  const int64_t radius = std::min((size_ - 1) / 2, tile.length - 1);
  std::copy_n(values, tile.rows * tile.length, out);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* in = values + r * tile.length;
    float* sum = out + r * tile.length;
    for (int64_t d = 1; d <= radius; ++d) {
      vec().add(tile.length - d, sum, in + d, sum);
      vec().add(tile.length - d, sum + d, in, sum + d);
    }
  }
  return out;
}

// The sum of the rows around `row`.
void LrnLayer::sum_rows(const Tile& tile, const float* values, int64_t row, float* out) const {
  const int64_t radius = (size_ - 1) / 2;
  const int64_t first = std::max<int64_t>(0, row - radius);
  const int64_t last = std::min(tile.rows - 1, row + radius);
  std::copy_n(values + first * tile.length, tile.length, out);
  for (int64_t r = first + 1; r <= last; ++r) {
    vec().add(tile.length, out, values + r * tile.length, out);
  }
}

void LrnLayer::forward_tile(const Tile& tile, const float* x, float* scale, float* y,
                            float* scratch) const {
  const int64_t n = tile.length;
  for (int64_t r = 0; r < tile.rows; ++r) {
    vec().mul(n, x + r * tile.stride, x + r * tile.stride, scratch + r * n);
  }
  const float* squares = sum_columns(tile, scratch, scratch + tile.rows * n);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t at = r * tile.stride;
    sum_rows(tile, squares, r, scale + at);
    vec().scale_shift(n, factor_, k_, scale + at, scale + at);
    vec().pow(n, scale + at, -beta_, y + at);
    vec().mul(n, y + at, x + at, y + at);
  }
}

void LrnLayer::backward_tile(const Tile& tile, const float* x, const float* scale, const float* dy,
                             float* dx, float* scratch) const {
  const int64_t n = tile.length;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t at = r * tile.stride;
    float* ratio = scratch + r * n;
    vec().pow(n, scale + at, -beta_, dx + at);
    vec().mul(n, dx + at, dy + at, dx + at);
    vec().mul(n, dx + at, x + at, ratio);
    vec().div(n, ratio, scale + at, ratio);
  }
  float* second = scratch + tile.rows * n;
  const float* ratios = sum_columns(tile, scratch, second);
  float* sum = across_ ? second : second + tile.rows * n;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t at = r * tile.stride;
    sum_rows(tile, ratios, r, sum);
    vec().mul(n, sum, x + at, sum);
    vec().axpy(n, -2 * factor_ * beta_, sum, dx + at);
  }
}

// ---- all tiles ----------------------------------------------------------------------------------

void LrnLayer::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const int threads = std::min(context.threads, planned_threads_);
  parallel_for(threads, tiles_, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const Tile t = tile(i);
      forward_tile(t, bottoms[0]->data() + t.offset, scale_.data() + t.offset,
                   tops[0]->data() + t.offset, scratch_.data() + thread * scratch_floats_);
    }
  });
}

void LrnLayer::backward(const Context& context, Tensors tops, Tensors bottoms,
                        const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const int threads = std::min(context.threads, planned_threads_);
  parallel_for(threads, tiles_, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const Tile t = tile(i);
      backward_tile(t, bottoms[0]->data() + t.offset, scale_.data() + t.offset,
                    tops[0]->diff() + t.offset, bottoms[0]->diff() + t.offset,
                    scratch_.data() + thread * scratch_floats_);
    }
  });
}

std::string LrnLayer::summary() const {
  return fmt::format("{}, size {}", across_ ? "across channels" : "within channel", size_);
}

KINET_REGISTER_LAYER(LrnLayer);

}  // namespace kinet
