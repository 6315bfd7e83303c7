#include "layers/dropout.h"

#include <algorithm>

#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

const MessageType& dropout_fields() {
  static const MessageType type{
      "dropout_param",
      "how much is dropped",
      {float_field("dropout_ratio", "0.5", "share of values set to zero in training, in [0, 1)")}};
  return type;
}

// mask[i] for values [from, to) of one sample.
void draw(const Rng& rng, uint64_t threshold, float kept, int64_t from, int64_t to, float* mask) {
  for (int64_t i = from; i < to;) {
    const std::array<uint32_t, 4> words = rng.block(static_cast<uint64_t>(i) / 4);
    for (; i < to; ++i) {
      mask[i] = words[i % 4] >= threshold ? kept : 0;
      if (i % 4 == 3) {
        ++i;
        break;
      }
    }
  }
}

}  // namespace

LayerType Dropout::describe() {
  LayerType type;
  type.type = "Dropout";
  type.help = "sets a random share of the values to zero in training";
  type.fields = {message_field("dropout_param", dropout_fields(), "of Dropout")};
  type.in_place = true;
  return type;
}

void Dropout::set_up(const std::vector<Shape>&) {
  const Params p = params("dropout_param");
  ratio_ = p.get_float("dropout_ratio");
  if (!(ratio_ >= 0 && ratio_ < 1)) {
    fail_at(p.where("dropout_ratio"),
            fmt::format("layer '{}': dropout_ratio {} is not in [0, 1)", name(), ratio_));
  }
}

std::vector<Shape> Dropout::reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) {
  samples_ = bottoms[0].num();
  values_ = samples_ > 0 ? bottoms[0].count() / samples_ : 0;
  if (phase() == Phase::kTrain) plan.saved(mask_, bottoms[0].count());
  return bottoms;
}

std::string Dropout::summary() const { return fmt::format("ratio {:.3g}", ratio_); }

bool Dropout::active(const Context& context) const {
  return context.phase == Phase::kTrain && phase() == Phase::kTrain;
}

void Dropout::draw_mask(const Context& context) {
  const auto threshold = static_cast<uint64_t>(ratio_ * 0x1p32);
  const auto kept = static_cast<float>(1 / (1 - ratio_));
  const auto first = static_cast<uint64_t>(context.pass * samples_);
  float* mask = mask_.data();
  const auto part = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end;) {
      const int64_t n = i / values_, stop = std::min(end, (n + 1) * values_);
      draw(rng(RngPurpose::kDropout, first + n), threshold, kept, i - n * values_,
           stop - n * values_, mask + n * values_);
      i = stop;
    }
  };
  parallel_elements(context.threads, samples_ * values_, part, 1024);
}

void Dropout::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float* x = bottoms[0]->data();
  float* y = tops[0]->data();
  const int64_t count = tops[0]->count();
  if (!active(context)) {
    if (x != y) std::copy_n(x, count, y);
    return;
  }
  draw_mask(context);
  parallel_elements(context.threads, count, [&](int64_t begin, int64_t end, int) {
    vec().mul(end - begin, x + begin, mask_.data() + begin, y + begin);
  });
}

void Dropout::backward(const Context& context, Tensors tops, Tensors bottoms,
                       const BackwardMask& mask) {
  if (!mask.bottom[0]) return;
  const float* dy = tops[0]->diff();
  float* dx = bottoms[0]->diff();
  const int64_t count = tops[0]->count();
  if (!active(context)) {
    if (dx != dy) std::copy_n(dy, count, dx);
    return;
  }
  parallel_elements(context.threads, count, [&](int64_t begin, int64_t end, int) {
    vec().mul(end - begin, dy + begin, mask_.data() + begin, dx + begin);
  });
}

KINET_REGISTER_LAYER(Dropout);

}  // namespace kinet
