// ctest: labels=unit,core device
// Every update rule on the CUDA device against the same rule on the host, over several steps.
//
// Bound: |a - b| <= 1e-5 * max(|b|, rms) for weights and history after five steps; the arenas have
// segments of every length modulo 4, frozen ones, and padding, which must keep their bits.
#include <gtest/gtest.h>

#include <cstring>

#include "src/base/rng.h"
#include "tests/cuda/device_under_test.h"
#include "tests/layer_test_util.h"

namespace kinet {
namespace {

using Floats = std::vector<float>;

constexpr double kTolerance = 1e-5;
constexpr int kSteps = 5;

// As a net lays them out: beginnings at multiples of 16 floats.
std::vector<ParameterSegment> segments() {
  std::vector<ParameterSegment> out;
  size_t offset = 0;
  for (size_t count : {1, 2, 3, 4, 20, 500, 2047, 2048, 2049, 5001}) {
    ParameterSegment segment{offset, count, 1, 1};
    if (count % 2 == 1) segment.lr_mult = 2;
    if (count == 20) segment.lr_mult = 0;  // frozen
    if (count == 500) segment.decay_mult = 0;
    out.push_back(segment);
    offset = (offset + count + 15) / 16 * 16;
  }
  return out;
}

size_t floats_of(const std::vector<ParameterSegment>& segments) {
  return (segments.back().offset + segments.back().count + 15) / 16 * 16;
}

Floats gaussian(size_t n, uint64_t stream) {
  Rng rng(5, RngPurpose::kTest, stream);
  Floats out(n);
  for (float& v : out) v = rng.gaussian();
  return out;
}

// History must be such as a rule makes: squares are not negative.
Floats start_history(size_t n, uint64_t stream) {
  Floats out = gaussian(n, stream);
  for (float& v : out) v = std::abs(v);
  return out;
}

UpdateStep step_number(int step) {
  return {.step = step, .learning_rate = 0.02 / step, .gradient_scale = 0.5F, .threads = 1};
}

class DeviceBlock {
 public:
  DeviceBlock(DeviceMemory& memory, const Floats& values)
      : memory_(memory), size_(values.size()), block_(memory.allocate(values.size())) {
    write(values);
  }
  ~DeviceBlock() { memory_.release(block_); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  void write(const Floats& values) {
    memory_.upload(block_, values.data(), values.size());
    memory_.synchronize();
  }
  Floats read() {
    Floats out(size_);
    memory_.download(out.data(), block_, size_);
    memory_.synchronize();
    return out;
  }
  float* data() { return block_; }

 private:
  DeviceMemory& memory_;
  size_t size_;
  float* block_;
};

struct Arenas {
  Floats weights, history;
};

Arenas run_on_host(const std::string& type, const OptimizerSettings& settings) {
  const auto rule = make_optimizer(type, settings);
  const auto parts = segments();
  const size_t n = floats_of(parts);
  Arenas a{gaussian(n, 1), start_history(n * rule->histories(), 2)};
  for (int step = 1; step <= kSteps; ++step) {
    const Floats g = gaussian(n, 10 + step);
    rule->update(parts, step_number(step), {a.weights, g, a.history});
  }
  return a;
}

Arenas run_on_device(Device& device, const std::string& type, const OptimizerSettings& settings) {
  const auto parts = segments();
  const size_t n = floats_of(parts);
  const auto rule = device.make_optimizer(type, settings, parts);
  DeviceBlock weights(device, gaussian(n, 1));
  DeviceBlock history(device, start_history(n * rule->histories(), 2));
  DeviceBlock gradients(device, Floats(n));
  for (int step = 1; step <= kSteps; ++step) {
    gradients.write(gaussian(n, 10 + step));
    rule->update(step_number(step), {weights.data(), gradients.data(), history.data(), n});
  }
  return {weights.read(), history.read()};
}

// Whether the float at `at` of an arena may move.
bool moves(size_t at) {
  for (const ParameterSegment& s : segments()) {
    if (at >= s.offset && at < s.offset + s.count) return s.lr_mult != 0;
  }
  return false;
}

using CudaOptimizers = DeviceTest;

OptimizerSettings settings_of(Regularization kind) {
  OptimizerSettings settings;
  settings.momentum = 0.9F;
  settings.weight_decay = 0.01F;
  settings.delta = 1e-4F;
  settings.regularization = kind;
  return settings;
}

TEST_F(CudaOptimizers, EveryRuleHasADeviceHalf) {
  const auto names = OptimizerRegistry::instance().names();
  EXPECT_EQ(backend_under_test().optimizer_types(),
            std::vector<std::string>(names.begin(), names.end()));
}

TEST_F(CudaOptimizers, AgreeWithTheHostInEveryOrderOfThreads) {
  for (const std::string& type : OptimizerRegistry::instance().names()) {
    for (Regularization kind : {Regularization::kL2, Regularization::kL1}) {
      const Arenas host = run_on_host(type, settings_of(kind));
      for (const std::string& order : thread_orders()) {
        SCOPED_TRACE(type + ", order " + order);
        use_thread_order(order);
        const Arenas device = run_on_device(*device_, type, settings_of(kind));
        EXPECT_EQ(compare(device.weights, host.weights, kTolerance), "");
        EXPECT_EQ(compare(device.history, host.history, kTolerance), "");
      }
    }
  }
}

TEST_F(CudaOptimizers, FrozenSegmentsAndPaddingKeepTheirBits) {
  const size_t n = floats_of(segments());
  const Floats before = gaussian(n, 1);
  size_t still = 0;
  for (const std::string& type : OptimizerRegistry::instance().names()) {
    SCOPED_TRACE(type);
    const Arenas after = run_on_device(*device_, type, settings_of(Regularization::kL2));
    for (size_t i = 0; i < n; ++i) {
      if (moves(i)) continue;
      ++still;
      ASSERT_EQ(std::memcmp(&after.weights[i], &before[i], sizeof(float)), 0) << "float " << i;
    }
  }
  EXPECT_GT(still, 100u);
}

}  // namespace
}  // namespace kinet
