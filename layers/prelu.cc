#include "layers/prelu.h"

#include "src/base/parallel.h"
#include "src/math/vec.h"

namespace kinet {
namespace {

const MessageType& prelu_fields() {
  static const MessageType type{
      "prelu_param",
      "the slope of the negative side",
      {message_field("filler", filler_fields(), "of the slopes; absent: constant 0.25"),
       bool_field("channel_shared", "false", "one slope for all channels")}};
  return type;
}

// A sum over one channel of one sample: few terms, added in double.
double negative_dot(int64_t n, const float* x, const float* dy) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] > 0 ? 0.0 : static_cast<double>(x[i]) * dy[i];
  return sum;
}

}  // namespace

LayerType Prelu::describe() {
  LayerType type;
  type.type = "PReLU";
  type.help = "rectifier with a learnt slope for each channel";
  type.fields = {message_field("prelu_param", prelu_fields(), "of PReLU")};
  type.in_place = true;
  return type;
}

void Prelu::set_up(const std::vector<Shape>& bottoms) {
  const Params p = params("prelu_param");
  if (bottoms[0].axes() < 2) fail_here("needs a channel axis, not shape " + bottoms[0].str());
  shared_ = p.get_bool("channel_shared");
  declare_parameter(shared_ ? Shape{} : Shape{bottoms[0][1]},
                    read_filler(p.message("filler"), 0.25f));
}

std::vector<Shape> Prelu::reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) {
  samples_ = bottoms[0].num();
  channels_ = bottoms[0].channels();
  inner_ = bottoms[0].count(2);
  return bottoms;
}

// One "row" is a channel of a sample: inner_ values with one slope.
void Prelu::forward(const Context& context, Tensors bottoms, Tensors tops) {
  const float *x = bottoms[0]->data(), *slope = blobs()[0].data();
  float* y = tops[0]->data();
  parallel_for(context.threads, samples_ * channels_, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float a = slope[shared_ ? 0 : row % channels_];
      vec().relu(inner_, a, x + row * inner_, y + row * inner_);
    }
  });
}

void Prelu::backward(const Context& context, Tensors tops, Tensors bottoms,
                     const BackwardMask& mask) {
  // The slopes first: in place, dx overwrites dy.
  if (mask.blob[0]) backward_slopes(context, *tops[0], *bottoms[0]);
  if (!mask.bottom[0]) return;
  const float *x = bottoms[0]->data(), *dy = tops[0]->diff(), *slope = blobs()[0].data();
  float* dx = bottoms[0]->diff();
  parallel_for(context.threads, samples_ * channels_, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const float a = slope[shared_ ? 0 : row % channels_];
      const int64_t at = row * inner_;
      vec().relu_grad(inner_, a, x + at, dy + at, dx + at);
    }
  });
}

// Each channel's sum is made by one thread, so it does not depend on the number of threads.
void Prelu::backward_slopes(const Context& context, const Tensor& top, const Tensor& bottom) {
  const float *x = bottom.data(), *dy = top.diff();
  float* da = blobs()[0].diff();
  std::vector<double> sums(channels_, 0.0);
  parallel_for(context.threads, channels_, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t n = 0; n < samples_; ++n) {
        const int64_t at = (n * channels_ + c) * inner_;
        sums[c] += negative_dot(inner_, x + at, dy + at);
      }
    }
  });
  double all = 0;
  for (double sum : sums) all += sum;
  if (shared_) da[0] += static_cast<float>(all);
  for (int64_t c = 0; !shared_ && c < channels_; ++c) da[c] += static_cast<float>(sums[c]);
}

KINET_REGISTER_LAYER(Prelu);

}  // namespace kinet
