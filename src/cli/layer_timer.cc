#include "src/cli/layer_timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/base/check.h"
#include "src/base/parallel.h"
#include "src/base/rng.h"
#include "src/cli/gpu_math.h"
#include "src/math/blas.h"

namespace kinet {
namespace {

constexpr char kName[] = "layer";       // of the layer in its net
constexpr int64_t kMostPasses = 10000;  // of a repeat

double seconds_of(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Shape with_batch(const Shape& shape, int64_t batch) {
  std::vector<int64_t> dims{batch};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(dims);
}

// A net of noise and the layer. The loss weight has it run backward; force_backward asks for the
// gradients of its bottoms.
ParamNode net_of(const LayerToTime& layer, int64_t batch) {
  std::string data = "layer { name: 'data' type: 'DummyData'", bottoms, fillers;
  for (size_t b = 0; b < layer.bottoms.size(); ++b) {
    const bool labels = layer.labels && b + 1 == layer.bottoms.size();
    data += fmt::format(" top: 'x{}'", b);
    bottoms += fmt::format(" bottom: 'x{}'", b);
    fillers += " shape {";
    const Shape shape = with_batch(layer.bottoms[b], batch);
    for (const int64_t dim : shape.dims()) {
      fillers += fmt::format(" dim: {}", dim);
    }
    fillers += labels ? " } data_filler { type: 'constant' value: 1 }"
                      : " } data_filler { type: 'uniform' min: -1 max: 1 }";
  }
  const std::string text = fmt::format(
      "force_backward: true\n{} dummy_data_param {{ {} }} }}\nlayer {{ name: '{}' {} top: 'y' "
      "loss_weight: 1 {} }}\n",
      data, fillers, kName, bottoms, layer.text);
  Diagnostics diagnostics;
  ParamNode root = parse_prototxt(text, layer.name, diagnostics);
  diagnostics.throw_if_any();
  return root;
}

double bytes_of(const Tensor& tensor) { return 4.0 * static_cast<double>(tensor.count()); }

double sum_of_bytes(const std::vector<Tensor*>& tensors) {
  double sum = 0;
  for (const Tensor* tensor : tensors) sum += bytes_of(*tensor);
  return sum;
}

bool any(const std::vector<bool>& wanted) {
  return std::find(wanted.begin(), wanted.end(), true) != wanted.end();
}

}  // namespace

LayerTimer::LayerTimer(const LayerToTime& layer, const TimerOptions& options) : options_(options) {
  ParamNode root = net_of(layer, options.batch);
  set_gpu_math(root, options.math);
  NetOptions net;
  net.threads = options.threads;
  net.device = options.device;
  net_ = std::make_unique<Net>(root, net);
  index_ = net_->layer_index(kName);
  context_.threads = options.threads;
  context_.seed = 1;
  // A whole pass brings everything to where the layer runs; then noise for what comes from above.
  net_->forward(context_);
  net_->backward(context_);
  context_.device = options.device.get();
  if (layer.is_loss) return;
  Tensor& top = *net_->tops(index_)[0];
  top.diff_buffer()->to_host();
  Rng rng(1);
  for (int64_t i = 0; i < top.count(); ++i) top.diff()[i] = static_cast<float>(rng.uniform(-1, 1));
  if (options.device == nullptr) return;
  top.diff_buffer()->written_on_host();
  top.diff_buffer()->to_device();
}

// One pass to warm up gives the number of passes of a repeat.
PassTime LayerTimer::time(const std::function<void()>& pass) const {
  const auto run = [&](int64_t passes) {
    return seconds_of([&] {
      for (int64_t i = 0; i < passes; ++i) pass();
      if (options_.device != nullptr) options_.device->synchronize();
    });
  };
  run(1);
  const double one = std::max(run(1), 1e-9);
  const double wanted = std::ceil(options_.seconds / one);
  const auto passes = static_cast<int64_t>(std::clamp<double>(wanted, 1, kMostPasses));
  std::vector<double> times;
  for (int i = 0; i < options_.repeats; ++i) {
    times.push_back(run(passes) / static_cast<double>(passes));
  }
  std::sort(times.begin(), times.end());
  PassTime out;
  out.least = times.front();
  out.median = times[times.size() / 2];
  return out;
}

PassTime LayerTimer::forward() {
  Layer& layer = net_->layer(index_);
  PassTime out = time([&] { layer.forward(context_, net_->bottoms(index_), net_->tops(index_)); });
  out.flops = 2 * layer.macs();
  out.bytes = forward_bytes();
  return out;
}

PassTime LayerTimer::backward() {
  Layer& layer = net_->layer(index_);
  PassTime out = time([&] {
    layer.backward(context_, net_->tops(index_), net_->bottoms(index_),
                   net_->backward_mask(index_));
  });
  out.flops = 2 * layer.macs() * backward_products();
  out.bytes = backward_bytes();
  return out;
}

std::string LayerTimer::shapes() const {
  std::string text;
  for (const Tensor* bottom : net_->bottoms(index_)) {
    text += (text.empty() ? "" : "+") + bottom->shape().str();
  }
  return text + " -> " + net_->tops(index_)[0]->shape().str();
}

// A product of the forward one's size for the weights, and one for the input.
double LayerTimer::backward_products() const {
  const BackwardMask& mask = net_->backward_mask(index_);
  return (any(mask.bottom) ? 1 : 0) + (any(mask.blob) ? 1 : 0);
}

double LayerTimer::forward_bytes() const {
  double bytes = sum_of_bytes(net_->bottoms(index_)) + sum_of_bytes(net_->tops(index_));
  for (const Tensor& blob : net_->layer(index_).blobs()) bytes += bytes_of(blob);
  return bytes;
}

// Gradients of parameters are added to: read and written.
double LayerTimer::backward_bytes() const {
  const Layer& layer = net_->layer(index_);
  const BackwardNeeds needs = layer.needs();
  const BackwardMask& mask = net_->backward_mask(index_);
  double bytes = layer.type().is_loss ? 0 : sum_of_bytes(net_->tops(index_));
  if (needs.top_data) bytes += sum_of_bytes(net_->tops(index_));
  if (needs.bottom_data) bytes += sum_of_bytes(net_->bottoms(index_));
  for (size_t b = 0; b < mask.bottom.size(); ++b) {
    if (mask.bottom[b]) bytes += bytes_of(*net_->bottoms(index_)[b]);
  }
  for (size_t i = 0; i < layer.blobs().size(); ++i) {
    if (mask.blob[i]) bytes += 2 * bytes_of(layer.blobs()[i]);
    if (any(mask.bottom)) bytes += bytes_of(layer.blobs()[i]);
  }
  return bytes;
}

DeviceLimits measure_cpu_limits(int threads) {
  constexpr int kRounds = 5;                   // the best counts: a limit
  constexpr int64_t kSize = 768;               // of a product, which then lies in the caches
  constexpr size_t kFloats = size_t{8} << 20;  // 32 MB a thread: beyond the caches
  std::vector<std::vector<float>> a(threads), b(threads), c(threads);
  parallel_for(threads, threads, [&](int64_t, int64_t, int t) {
    for (auto* block : {&a[t], &b[t], &c[t]}) block->assign(kFloats, 1);
  });
  double product = 1e9, copy = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    product = std::min(product, seconds_of([&] {
                         parallel_for(threads, threads, [&](int64_t, int64_t, int t) {
                           gemm(Trans::kNo, Trans::kNo, kSize, kSize, kSize, 1, a[t].data(),
                                b[t].data(), 0, c[t].data());
                         });
                       }));
    copy = std::min(copy, seconds_of([&] {
                      parallel_for(threads, threads, [&](int64_t, int64_t, int t) {
                        std::memcpy(c[t].data(), a[t].data(), kFloats * sizeof(float));
                      });
                    }));
  }
  DeviceLimits limits;
  limits.flops = 2.0 * kSize * kSize * kSize * threads / product;
  limits.bytes_per_second = 2.0 * kFloats * sizeof(float) * threads / copy;
  limits.computed_from =
      fmt::format("measured here: products of {0}x{0} matrices, copies of {1} MB", kSize,
                  kFloats * sizeof(float) >> 20);
  return limits;
}

}  // namespace kinet
