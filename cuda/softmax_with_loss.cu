// SoftmaxWithLoss on the device.
//
// Equation: L = (1 / D) sum over positions of log s + m - x_label (m, s as in cuda/softmax.h);
//   dx_c = (w / D) (p_c - [c = label]), 0 at ignored positions. w is the top's gradient.
// Shapes: x, p outer x classes x inner; labels and losses outer x inner.
// Labels are checked on the host, which has made them as a rule, so that a bad one is an error that
// names the sample; D follows from them. The sum of losses is made in two stages in a fixed order.
// Parent: layers/softmax_with_loss.h
#include <algorithm>

#include "cuda/channels.h"
#include "cuda/ignored_label.h"
#include "cuda/layer.h"
#include "cuda/softmax.h"
#include "layers/softmax_with_loss.h"

namespace kinet {
namespace {

// losses[p] = log s + m - x_label
struct PositionLoss {
  IgnoredLabel ignored;
  int64_t classes, inner;
  const float *x, *labels;
  float* losses;
  __device__ void operator()(int64_t p, float max, float sum) const {
    const int64_t o = inner == 1 ? p : p / inner;
    const float label = labels[p];
    const int64_t at = (o * classes + static_cast<int64_t>(label)) * inner + (p - o * inner);
    losses[p] = ignored(label) ? 0 : logf(sum) + (max - x[at]);
  }
};

struct MeanLoss {
  float divisor;
  float* loss;
  __device__ void operator()(int64_t, float2 sums) const { *loss = sums.y / divisor; }
};

// One thread for each value of dx, or for four.
template <class Divide>
__global__ void __launch_bounds__(kThreads)
    softmax_loss_backward_kernel(SoftmaxShape shape, int64_t groups, Divide by_inner,
                                 Divide by_classes, IgnoredLabel ignored, float divisor,
                                 const float* weight, const float* prob, const float* labels,
                                 float* dx) {
  using Index = typename Divide::Index;
  const float scale = *weight / divisor;
  const auto gradient = [&](int64_t i, float p) {
    const int64_t row = by_inner.quotient(static_cast<Index>(i));
    const int64_t o = by_classes.quotient(static_cast<Index>(row));
    const float label = labels[o * shape.inner + (i - row * shape.inner)];
    const float hit = static_cast<float>(row - o * shape.classes) == label ? 1.0f : 0.0f;
    return ignored(label) ? 0 : scale * (p - hit);
  };
  KINET_GRID_STRIDE(group, groups) {
    const int64_t i = 4 * group;
    const float4 p = load_4(prob + i);
    store_4(dx + i, make_float4(gradient(i, p.x), gradient(i + 1, p.y), gradient(i + 2, p.z),
                                gradient(i + 3, p.w)));
  }
  KINET_GRID_STRIDE(rest, shape.outer * shape.classes * shape.inner - 4 * groups) {
    const int64_t i = 4 * groups + rest;
    dx[i] = gradient(i, prob[i]);
  }
}

class CudaSoftmaxWithLoss : public SoftmaxWithLoss {
 public:
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override {
    std::vector<Shape> tops = SoftmaxWithLoss::reshape(bottoms, plan);
    positions_ = {1, 1, outer_ * inner_};
    const size_t parts = SumPlan(positions_).floats(positions_);
    plan.temporary(terms_, static_cast<size_t>(outer_ * inner_) + parts);
    return tops;
  }

  void forward(const Context& context, Tensors bottoms, Tensors tops) override {
    const cudaStream_t stream = gpu_of(context).stream;
    check_labels(*bottoms[1]);
    const float* x = bottoms[0]->device_data();
    float *prob = prob_.device_data(), *parts = terms_.device_data();
    float* losses = parts + SumPlan(positions_).floats(positions_);
    softmax_forward(stream, shape(), x, prob,
                    PositionLoss{IgnoredLabel(options_.ignore_label), classes_, inner_, x,
                                 bottoms[1]->device_data(), losses});
    sum_channels(stream, positions_, ValueOnly{}, losses, losses, parts,
                 MeanLoss{static_cast<float>(divisor_), tops[0]->device_data()});
    if (tops.size() > 1) {
      copy_values(stream, bottoms[0]->count(), prob, tops[1]->device_data());
    }
  }

  void backward(const Context& context, Tensors tops, Tensors bottoms,
                const BackwardMask& mask) override {
    const int64_t n = bottoms[0]->count();
    if (!mask.bottom[0] || n == 0) return;
    const cudaStream_t stream = gpu_of(context).stream;
    const auto divisor = static_cast<float>(divisor_);
    const float *weight = tops[0]->device_diff(), *labels = bottoms[1]->device_data();
    const float* prob = prob_.device_data();
    float* dx = bottoms[0]->device_diff();
    const auto launch = [&](auto by_inner, auto by_classes) {
      const int64_t groups = groups_of_4(n, prob, dx);
      KINET_LAUNCH((softmax_loss_backward_kernel<decltype(by_inner)>),
                   blocks_for(groups > 0 ? groups : n), kThreads, 0, stream, shape(), groups,
                   by_inner, by_classes, IgnoredLabel(options_.ignore_label), divisor, weight, prob,
                   labels, dx);
    };
    if (n <= kFastDivideLimit) launch(FastDivide(inner_), FastDivide(classes_));
    if (n > kFastDivideLimit) launch(LongDivide(inner_), LongDivide(classes_));
    KINET_CUDA_CHECK_LAUNCH();
  }

 private:
  SoftmaxShape shape() const { return {outer_, classes_, inner_}; }

  // Throws for labels that are no class; sets divisor_.
  void check_labels(Tensor& labels) {
    labels.data_buffer()->to_host();
    const auto count = static_cast<size_t>(labels.count());
    read_labels(fmt::format("{}: layer '{}' ({})", where().str(), name(), type().type),
                {labels.data(), count}, inner_, classes_, options_.ignore_label, labels_);
    const auto ignored = std::count(labels_.begin(), labels_.end(), kIgnored);
    divisor_ = options_.divisor(outer_, outer_ * inner_, outer_ * inner_ - ignored);
  }

  Broadcast positions_;
  Workspace terms_;  // temporary: parts of the sum, then the loss of each position
};

KINET_REGISTER_CUDA_LAYER("SoftmaxWithLoss", CudaSoftmaxWithLoss);

}  // namespace
}  // namespace kinet
