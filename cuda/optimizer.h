// What a CUDA update rule includes: cuda/<rule>.cu gives the arithmetic of one weight, this header
// the rest (averaging, clipping, regularisation, rates of segments, 128-bit accesses).
//
//   struct SgdRule {
//     static constexpr int kHistories = 1;
//     float mu;
//     __device__ void operator()(const UpdateRates& r, float g, float& w, float& h1, float&) const
//     {
//       h1 = mu * h1 + r.rate * g;
//       w -= h1;
//     }
//   };
//   class CudaSgd : public CudaOptimizer<SgdRule> {
//    public:
//     using CudaOptimizer::CudaOptimizer;
//    protected:
//     SgdRule rule(const UpdateStep&) const override { return {settings_.momentum}; }
//   };
//   KINET_REGISTER_CUDA_OPTIMIZER("SGD", CudaSgd);
//
// Notation and semantics: src/optim/optimizer.h. Segments begin at multiples of 16 floats, as the
// net lays them out; what does not (or is not a multiple of 4 long) is done float by float.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device_array.h"
#include "cuda/layer.h"
#include "src/optim/device_optimizer.h"

namespace kinet {

// Floats that one thread block updates: 2 times 4 for each of 256 threads.
inline constexpr int kUpdateBlock = 2048;

// A run of at most kUpdateBlock floats of one segment.
struct UpdateBlock {
  int64_t offset = 0;  // floats from the start of the arenas
  int count = 0;
  float lr_mult = 1, decay_mult = 1;
};

// What the rule sees of the segment: eta, and lambda for rules with decoupled decay.
struct UpdateRates {
  float rate = 0, decay = 0;
};

struct UpdateNumbers {
  float rate = 0;            // before lr_mult
  float gradient_scale = 1;  // averaging and clipping
  float weight_decay = 0;    // before decay_mult
  bool l1 = false;
  bool decoupled = false;  // g is left without lambda
};

// g as the rule gets it: scaled, with L2 or L1 regularisation.
__device__ inline float regularised(const UpdateNumbers& n, float decay, float g, float w) {
  g *= n.gradient_scale;
  if (n.decoupled || decay == 0) return g;
  if (!n.l1) return g + decay * w;
  return g + decay * (static_cast<float>(w > 0) - static_cast<float>(w < 0));
}

// One thread block for each UpdateBlock. `history2` is null when the rule has one history.
template <class Rule>
__global__ void update_kernel(const UpdateBlock* blocks, UpdateNumbers numbers, Rule rule,
                              float* weights, const float* gradients, float* history1,
                              float* history2) {
  const UpdateBlock block = blocks[blockIdx.x];
  const UpdateRates rates{numbers.rate * block.lr_mult, numbers.weight_decay * block.decay_mult};
  const auto one = [&](int64_t at) {
    float w = weights[at], h1 = 0, h2 = 0;
    if constexpr (Rule::kHistories > 0) h1 = history1[at];
    if constexpr (Rule::kHistories > 1) h2 = history2[at];
    rule(rates, regularised(numbers, rates.decay, gradients[at], w), w, h1, h2);
    weights[at] = w;
    if constexpr (Rule::kHistories > 0) history1[at] = h1;
    if constexpr (Rule::kHistories > 1) history2[at] = h2;
  };
  const auto four = [&](int64_t at) {
    const float4 g = *reinterpret_cast<const float4*>(gradients + at);
    float4 w = *reinterpret_cast<float4*>(weights + at);
    float4 h1 = make_float4(0, 0, 0, 0), h2 = make_float4(0, 0, 0, 0);
    if constexpr (Rule::kHistories > 0) h1 = *reinterpret_cast<float4*>(history1 + at);
    if constexpr (Rule::kHistories > 1) h2 = *reinterpret_cast<float4*>(history2 + at);
    rule(rates, regularised(numbers, rates.decay, g.x, w.x), w.x, h1.x, h2.x);
    rule(rates, regularised(numbers, rates.decay, g.y, w.y), w.y, h1.y, h2.y);
    rule(rates, regularised(numbers, rates.decay, g.z, w.z), w.z, h1.z, h2.z);
    rule(rates, regularised(numbers, rates.decay, g.w, w.w), w.w, h1.w, h2.w);
    *reinterpret_cast<float4*>(weights + at) = w;
    if constexpr (Rule::kHistories > 0) *reinterpret_cast<float4*>(history1 + at) = h1;
    if constexpr (Rule::kHistories > 1) *reinterpret_cast<float4*>(history2 + at) = h2;
  };
  const int whole = block.offset % 4 == 0 ? block.count / 4 * 4 : 0;  // done four at a time
  for (int i = static_cast<int>(threadIdx.x) * 4; i < whole;
       i += static_cast<int>(blockDim.x) * 4) {
    four(block.offset + i);
  }
  for (int i = whole + static_cast<int>(threadIdx.x); i < block.count;
       i += static_cast<int>(blockDim.x)) {
    one(block.offset + i);
  }
}

// The table of a net: frozen segments (lr_mult 0) have no blocks.
std::vector<UpdateBlock> update_blocks(const std::vector<ParameterSegment>& segments);

template <class Rule>
class CudaOptimizer : public DeviceOptimizer {
 public:
  CudaOptimizer(Gpu& gpu, const OptimizerSettings& settings,
                const std::vector<ParameterSegment>& segments)
      : settings_(settings), gpu_(gpu), blocks_(gpu, update_blocks(segments)) {}

  int histories() const override { return Rule::kHistories; }

  void update(const UpdateStep& step, const DeviceArenas& arenas) override {
    if (blocks_.size() == 0) return;
    UpdateNumbers numbers;
    numbers.rate = static_cast<float>(step.learning_rate);
    numbers.gradient_scale = step.gradient_scale;
    numbers.weight_decay = settings_.weight_decay;
    numbers.l1 = settings_.regularization == Regularization::kL1;
    numbers.decoupled = decoupled_decay();
    float* const second = Rule::kHistories > 1 ? arenas.history + arenas.floats : nullptr;
    KINET_LAUNCH((update_kernel<Rule>), static_cast<unsigned>(blocks_.size()), kThreads, 0,
                 gpu_.stream, blocks_.data(), numbers, rule(step), arenas.weights, arenas.gradients,
                 arenas.history, second);
    KINET_CUDA_CHECK_LAUNCH();
  }

 protected:
  virtual Rule rule(const UpdateStep& step) const = 0;
  virtual bool decoupled_decay() const { return false; }

  const OptimizerSettings settings_;

 private:
  Gpu& gpu_;
  DeviceArray<UpdateBlock> blocks_;
};

using CudaOptimizerMaker = std::unique_ptr<DeviceOptimizer> (*)(
    Gpu&, const OptimizerSettings&, const std::vector<ParameterSegment>&);
bool register_cuda_optimizer(const std::string& type, CudaOptimizerMaker make);

// REQUIRES: a namespace-scope use in the .cu file.
#define KINET_REGISTER_CUDA_OPTIMIZER(type, Class)                                          \
  [[maybe_unused]] static const bool kRegistered##Class = ::kinet::register_cuda_optimizer( \
      type,                                                                                 \
      [](::kinet::Gpu& gpu, const ::kinet::OptimizerSettings& settings,                     \
         const std::vector<::kinet::ParameterSegment>& segments)                            \
          -> std::unique_ptr<::kinet::DeviceOptimizer> {                                    \
        return std::make_unique<Class>(gpu, settings, segments);                            \
      })

}  // namespace kinet
