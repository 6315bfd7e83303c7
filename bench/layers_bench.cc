// Speed of the layers that cost most, forward and backward, one thread.
//
// Columns: MAC/s (multiply-accumulates of the pass; the backward pass of a convolution or full
// connection has twice as many as its forward pass) or bytes/s (bottom and top read or written
// once). Compare with BM_Gemm, which is what the machine's matrix product reaches.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "src/math/blas.h"
#include "src/math/vec.h"
#include "src/net/layer.h"

namespace kinet {
namespace {

struct Case {
  std::string name, text;  // a layer without its name
  Shape bottom;
};

std::vector<Case> cases() {
  const auto conv = [](const std::string& fields) {
    return "type: 'Convolution' convolution_param { " + fields + " }";
  };
  return {
      {"lenet_conv1", conv("num_output: 20 kernel_size: 5"), {64, 1, 28, 28}},
      {"lenet_pool1",
       "type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 }",
       {64, 20, 24, 24}},
      {"lenet_conv2", conv("num_output: 50 kernel_size: 5"), {64, 20, 12, 12}},
      {"lenet_pool2", "type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 }", {64, 50, 8, 8}},
      {"lenet_ip1", "type: 'InnerProduct' inner_product_param { num_output: 500 }", {64, 50, 4, 4}},
      {"cifar_conv2", conv("num_output: 32 kernel_size: 5 pad: 2"), {100, 32, 16, 16}},
      {"cifar_pool_ave",
       "type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 }",
       {100, 32, 32, 32}},
      {"resnet20_conv", conv("num_output: 16 kernel_size: 3 pad: 1"), {32, 16, 32, 32}},
      {"resnet20_bn", "type: 'BatchNorm'", {128, 16, 32, 32}},
      {"resnet20_scale", "type: 'Scale' scale_param { bias_term: true }", {128, 16, 32, 32}},
      {"alexnet_conv2", conv("num_output: 256 kernel_size: 5 pad: 2 group: 2"), {2, 96, 27, 27}},
      {"alexnet_lrn1", "type: 'LRN' lrn_param { alpha: 1e-4 }", {4, 96, 55, 55}},
      {"resnet50_1x1", conv("num_output: 256 kernel_size: 1"), {1, 64, 56, 56}},
      {"mobilenet_depthwise",
       conv("num_output: 256 kernel_size: 3 pad: 1 group: 256"),
       {2, 256, 28, 28}},
  };
}

// A layer with all its tensors.
class Bench {
 public:
  explicit Bench(const Case& c) : plan_(std::make_shared<Buffer>()) {
    Diagnostics diagnostics;
    root_ = parse_prototxt(c.text, "bench", diagnostics);
    diagnostics.throw_if_any();
    const LayerType* type = LayerRegistry::instance().find(root_.find("type")->text);
    layer_ = type->make();
    layer_->configure(c.name, Phase::kTrain, &root_, type, 1, 1);
    layer_->set_up({c.bottom});
    for (const ParameterDecl& p : layer_->declared()) layer_->blobs().emplace_back(p.shape);
    bottom_ = Tensor(c.bottom);
    top_ = Tensor(layer_->reshape({c.bottom}, plan_).at(0));
    Rng rng(1);
    for (Tensor* t : {&bottom_, &top_}) {
      for (int64_t i = 0; i < t->count(); ++i) {
        t->data()[i] = rng.uniform(-1, 1);
        t->diff()[i] = rng.uniform(-1, 1);
      }
    }
    mask_ = {{true}, std::vector<bool>(layer_->blobs().size(), true)};
  }

  void forward() { layer_->forward(context_, {&bottoms_[0], 1}, {&tops_[0], 1}); }
  void backward() { layer_->backward(context_, {&tops_[0], 1}, {&bottoms_[0], 1}, mask_); }
  double macs() const { return layer_->macs(); }
  double bytes() const { return 4.0 * static_cast<double>(bottom_.count() + top_.count()); }

 private:
  ParamNode root_;
  WorkspacePlan plan_;
  std::unique_ptr<Layer> layer_;
  Tensor bottom_, top_;
  Tensor *bottoms_[1] = {&bottom_}, *tops_[1] = {&top_};
  BackwardMask mask_;
  Context context_;
};

void report(benchmark::State& state, const Bench& bench, double passes) {
  const double count = static_cast<double>(state.iterations()) * passes;
  const auto rate = benchmark::Counter::kIsRate;
  if (bench.macs() > 0) state.counters["MAC/s"] = {bench.macs() * count, rate};
  if (bench.macs() == 0) state.counters["bytes/s"] = {bench.bytes() * count, rate};
}

void forward_case(benchmark::State& state, const Case& c) {
  Bench bench(c);
  for ([[maybe_unused]] auto _ : state) bench.forward();
  report(state, bench, 1);
}

void backward_case(benchmark::State& state, const Case& c) {
  Bench bench(c);
  bench.forward();
  for ([[maybe_unused]] auto _ : state) bench.backward();
  report(state, bench, bench.macs() > 0 ? 2 : 1);
}

// What the machine can do: a large square product.
void BM_Gemm(benchmark::State& state) {
  const int64_t n = state.range(0);
  const std::vector<float> a(n * n, 1), b(n * n, 1);
  std::vector<float> c(n * n);
  for ([[maybe_unused]] auto _ : state) {
    gemm(Trans::kNo, Trans::kNo, n, n, n, 1, a.data(), b.data(), 0, c.data());
  }
  state.counters["MAC/s"] = {static_cast<double>(state.iterations() * n * n * n),
                             benchmark::Counter::kIsRate};
}
BENCHMARK(BM_Gemm)->Arg(64)->Arg(512)->Unit(benchmark::kMicrosecond);

// Transcendental kernels of every instruction set.
void kernel_case(benchmark::State& state, void (*kernel)(int64_t, const float*, float*)) {
  constexpr int64_t kCount = 4096;  // floats: in the first-level cache
  std::vector<float> x(kCount, 0.5f), y(kCount);
  for ([[maybe_unused]] auto _ : state) {
    kernel(kCount, x.data(), y.data());
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["values/s"] = {static_cast<double>(state.iterations() * kCount),
                                benchmark::Counter::kIsRate};
}

void register_all() {
  for (const Case& c : cases()) {
    for (const bool backward : {false, true}) {
      benchmark::RegisterBenchmark((c.name + (backward ? "/backward" : "/forward")).c_str(),
                                   backward ? backward_case : forward_case, c)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  for (int i = 0; i < vec_variant_count(); ++i) {
    const VecKernels& k = vec_variant(i);
    for (const auto& [name, kernel] :
         {std::pair{"exp", k.exp}, {"log", k.log}, {"tanh", k.tanh}, {"sigmoid", k.sigmoid}}) {
      benchmark::RegisterBenchmark((std::string(name) + "/" + k.name).c_str(), kernel_case, kernel);
    }
  }
}

}  // namespace
}  // namespace kinet

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  kinet::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
