// ctest: labels=unit,core device
// Nets on a device: values move where layers change sides, and everything that a net gives its user
// is what it is on the CPU.
#include <cmath>
#include <cstring>

#include "tests/cuda/device_under_test.h"
#include "tests/net_test_util.h"

namespace kinet::test {
namespace {

std::unique_ptr<Net> net_on(const std::shared_ptr<Device>& device, const std::string& text,
                            Phase phase = Phase::kTrain, Net* training = nullptr) {
  NetOptions options;
  options.state.phase = phase;
  options.device = device;
  return std::make_unique<Net>(parse_net(text), options, training);
}

const std::string kInput =
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 4 dim: "
    "2 dim: 6 dim: 6 } shape { dim: 4 } } }\n";

std::string layer(const std::string& type, const std::string& name, const std::string& bottom,
                  const std::string& top, const std::string& more = "") {
  return fmt::format("layer {{ name: '{}' type: '{}' bottom: '{}' top: '{}' {} }}\n", name, type,
                     bottom, top, more);
}

std::string ip(const std::string& name, const std::string& bottom, int outputs) {
  return layer("InnerProduct", name, bottom, name,
               fmt::format("inner_product_param {{ num_output: {} weight_filler {{ type: 'xavier' "
                           "}} }}",
                           outputs));
}

const std::string kConv =
    layer("Convolution", "conv", "data", "conv",
          "convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: 'xavier' } }");
const std::string kLoss =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";
// ReLU in place, a Flatten that only gives another shape, batch-norm statistics, a Split (ip2 has
// two readers) of which one is a host layer, and labels that both sides read.
const std::string kMixed = kInput + kConv + layer("BatchNorm", "norm", "conv", "norm") +
                           layer("ReLU", "relu", "norm", "norm") +
                           layer("Flatten", "flat", "norm", "flat") + ip("ip1", "flat", 5) +
                           layer("ReLU", "relu1", "ip1", "ip1") + ip("ip2", "ip1", 3) +
                           "layer { name: 'acc' type: 'Accuracy' bottom: 'ip2' bottom: 'label' "
                           "top: 'acc' }\n" +
                           kLoss;

void fill_inputs(Net& net, uint64_t seed = 5) {
  randomize(*net.blob("data"), seed);
  Tensor& label = *net.blob("label");
  for (int64_t i = 0; i < label.count(); ++i) label.data()[i] = static_cast<float>(i % 3);
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

void expect_near(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0F, std::abs(b[i]))) << "float " << i;
  }
}

struct Pass {
  double loss = 0;
  std::vector<float> gradients, buffers, outputs;
};

Pass run_pass(Net& net, uint64_t seed = 5) {
  Pass pass;
  fill_inputs(net, seed);
  net.zero_gradients();
  pass.loss = net.forward(Context{});
  for (const Net::Output& output : net.outputs()) pass.outputs.push_back(output.tensor->data()[0]);
  net.backward(Context{});
  pass.gradients = copy(net.gradient_arena());
  pass.buffers = copy(net.buffer_arena());
  return pass;
}

void expect_same(const Pass& a, const Pass& b) {
  EXPECT_NEAR(a.loss, b.loss, 1e-5 * std::abs(b.loss));
  expect_near(a.gradients, b.gradients, 1e-5F);
  expect_near(a.buffers, b.buffers, 1e-5F);
  expect_near(a.outputs, b.outputs, 1e-5F);
}

using DeviceBuffer = DeviceTest;
using DeviceNorm = DeviceTest;
using DeviceNet = DeviceTest;
using DeviceOfBackend = DeviceTest;

TEST_F(DeviceBuffer, KnowsWhichSideIsUpToDate) {
  const auto& device = device_;
  Buffer buffer;
  buffer.attach(device);
  buffer.reserve(5);
  EXPECT_EQ(buffer.fresh(), Buffer::Fresh::kBoth);  // zeros on both sides
  EXPECT_EQ(buffer.data()[4], 0);
  buffer.data()[4] = 7;
  buffer.written_on_host();
  EXPECT_EQ(buffer.fresh(), Buffer::Fresh::kHost);
  buffer.to_device();
  EXPECT_EQ(buffer.fresh(), Buffer::Fresh::kBoth);
  device->fill(buffer.device_data(), 2, 3);
  buffer.written_on_device();
  EXPECT_EQ(buffer.data()[0], 0);  // nothing moves by itself
  buffer.to_host();
  EXPECT_EQ(buffer.data()[0], 2);
  EXPECT_EQ(buffer.data()[4], 7);
  EXPECT_EQ(buffer.fresh(), Buffer::Fresh::kBoth);
}

TEST_F(DeviceBuffer, FollowsItsHostMemory) {
  const auto& device = device_;
  Buffer buffer;
  buffer.attach(device);
  buffer.reserve(16);
  device->fill(buffer.device_data(), 3, 16);
  buffer.written_on_device();
  alignas(64) float received[16];
  std::fill_n(received, 16, 9.0F);
  buffer.change_to(received, nullptr);  // weights that came: newer than the device's
  buffer.to_device();
  float back[16] = {};
  device->download(back, buffer.device_data(), 16);
  device->synchronize();
  EXPECT_EQ(back[15], 9);
  device->fill(buffer.device_data(), 4, 16);
  buffer.written_on_device();
  buffer.to_host();
  EXPECT_EQ(received[3], 4);
}

TEST_F(DeviceNorm, IsThatOfTheHost) {
  const auto& device = device_;
  for (const size_t n : {1U, 255U, 70000U}) {
    std::vector<float> x(n);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) {
      x[i] = std::sin(static_cast<float>(i));
      sum += static_cast<double>(x[i]) * x[i];
    }
    float* memory = device->allocate(n);
    device->upload(memory, x.data(), n);
    EXPECT_NEAR(device->norm(memory, n), std::sqrt(sum), 1e-5 * std::sqrt(sum)) << n;
    x[n - 1] = NAN;
    device->finish_uploads();
    device->upload(memory, x.data(), n);
    EXPECT_TRUE(std::isnan(device->norm(memory, n))) << n;
    device->release(memory);
  }
}

TEST_F(DeviceNet, GivesWhatTheCpuGives) {
  const auto cpu = net_on(nullptr, kMixed);
  const auto gpu = net_on(device_, kMixed);
  EXPECT_EQ(gpu->parameters().size(), cpu->parameters().size());
  for (int i = 0; i < gpu->layer_count(); ++i) {
    EXPECT_EQ(gpu->layer_on_device(i), !gpu->layer(i).type().host_ok) << gpu->layer(i).name();
  }
  for (uint64_t pass = 1; pass <= 3; ++pass)
    expect_same(run_pass(*gpu, pass), run_pass(*cpu, pass));
}

TEST_F(DeviceNet, WeightsWrittenOnTheHostAreUsed) {
  const auto cpu = net_on(nullptr, kMixed);
  const auto gpu = net_on(device_, kMixed);
  run_pass(*gpu), run_pass(*cpu);
  for (Net* net : {cpu.get(), gpu.get()}) {
    for (float& w : net->parameter_arena()) w *= 1.5F;
    net->buffer_arena()[0] += 1;
  }
  expect_same(run_pass(*gpu), run_pass(*cpu));
}

TEST_F(DeviceNet, WeightsThatCameAreUsedAndGradientsLieWhereTheyAreWanted) {
  const auto cpu = net_on(nullptr, kMixed);
  const auto gpu = net_on(device_, kMixed);
  const size_t floats = cpu->parameter_floats(), buffers = cpu->buffer_arena().size();
  const auto block = [](size_t n) {
    auto* p = static_cast<float*>(std::aligned_alloc(64, (n * 4 + 63) / 64 * 64));
    std::memset(p, 0, n * 4);
    return std::shared_ptr<float>(p, [](float* q) { std::free(q); });
  };
  const auto weights = block(floats), statistics = block(buffers), gradients = block(floats);
  run_pass(*gpu);
  for (size_t i = 0; i < floats; ++i) weights.get()[i] = cpu->parameter_arena()[i] * 0.7F;
  std::copy_n(cpu->buffer_arena().data(), buffers, statistics.get());
  for (float& w : cpu->parameter_arena()) w *= 0.7F;
  gpu->use_parameters({weights.get(), floats}, {statistics.get(), buffers}, weights);
  gpu->move_gradients({gradients.get(), floats}, gradients);
  const Pass expected = run_pass(*cpu);
  expect_same(run_pass(*gpu), expected);
  expect_near({gradients.get(), gradients.get() + floats}, expected.gradients, 1e-5F);
}

// Reads the host's memory when it is told, as a communicator does.
class Reader : public PassHook {
 public:
  Reader(const float* memory, size_t floats) : memory_(memory), seen(floats, NAN) {}
  bool go_on() override { return ++asked != end_at; }
  void gradients_final(size_t from, size_t to) override {
    for (size_t i = from; i < to; ++i) {
      EXPECT_TRUE(std::isnan(seen[i])) << "float " << i << " is told twice";
      seen[i] = memory_[i];
    }
    ++ranges;
  }

 private:
  const float* memory_;

 public:
  std::vector<float> seen;
  int asked = 0, end_at = -1, ranges = 0;
};

TEST_F(DeviceNet, FinalGradientsAreOnTheHostWhenTheyAreTold) {
  const auto cpu = net_on(nullptr, kMixed);
  const auto gpu = net_on(device_, kMixed);
  const Pass expected = run_pass(*cpu);
  run_pass(*gpu, 9);
  fill_inputs(*gpu);
  const float* memory = gpu->gradient_arena().data();
  gpu->zero_gradients();
  Reader reader(memory, gpu->parameter_floats());
  // The statistics differ by one pass; the batch's own are used in training.
  EXPECT_TRUE(gpu->forward(Context{}, &reader));
  EXPECT_TRUE(gpu->backward(Context{}, &reader));
  expect_near(reader.seen, expected.gradients, 1e-5F);
  EXPECT_GT(reader.ranges, 1);
}

TEST_F(DeviceNet, APassThatIsEndedLeavesNothingBehind) {
  const auto cpu = net_on(nullptr, kMixed);
  const auto gpu = net_on(device_, kMixed);
  for (int end = 1; end < 2 * gpu->layer_count(); ++end) {
    Reader reader(gpu->gradient_arena().data(), gpu->parameter_floats());
    reader.end_at = end;
    fill_inputs(*gpu, 77);
    gpu->zero_gradients();
    if (gpu->forward(Context{}, &reader)) gpu->backward(Context{}, &reader);
  }
  for (float& value : gpu->buffer_arena()) value = 0;
  expect_same(run_pass(*gpu), run_pass(*cpu));
}

TEST_F(DeviceNet, ATestNetUsesTheTrainingNetsWeights) {
  const auto& device = device_;
  const auto cpu = net_on(nullptr, kMixed), gpu = net_on(device, kMixed);
  const auto cpu_test = net_on(nullptr, kMixed, Phase::kTest, cpu.get());
  const auto gpu_test = net_on(device, kMixed, Phase::kTest, gpu.get());
  for (int round = 0; round < 2; ++round) {
    run_pass(*cpu), run_pass(*gpu);
    for (Net* net : {cpu.get(), gpu.get()}) net->parameter_arena()[0] += 0.5F;
    for (Net* net : {cpu_test.get(), gpu_test.get()}) fill_inputs(*net, 3);
    Context test;
    test.phase = Phase::kTest;
    const double expected = cpu_test->forward(test);
    EXPECT_NEAR(gpu_test->forward(test), expected, 1e-5 * expected);
  }
}

TEST_F(DeviceNet, ABatchOfAnotherSizeIsTaken) {
  const auto cpu = net_on(nullptr, kMixed), gpu = net_on(device_, kMixed);
  run_pass(*cpu), run_pass(*gpu);
  for (const int64_t batch : {7, 2}) {
    for (Net* net : {cpu.get(), gpu.get()}) {
      net->blob("data")->resize({batch, 2, 6, 6});
      net->blob("label")->resize({batch});
    }
    expect_same(run_pass(*gpu), run_pass(*cpu));
  }
}

TEST_F(DeviceNet, TheFirstLayerThatIsNotFiniteIsNamed) {
  const auto gpu = net_on(device_, kMixed);
  fill_inputs(*gpu);
  EXPECT_EQ(gpu->find_non_finite(Context{}), "");
  gpu->blob("data")->data()[0] = INFINITY;
  EXPECT_HAS(gpu->find_non_finite(Context{}), "layer 'data' (Input): its output 'data'");
  fill_inputs(*gpu);
  gpu->parameter_arena()[gpu->parameters()[0].offset] = NAN;
  EXPECT_HAS(gpu->find_non_finite(Context{}), "layer 'conv' (Convolution): its parameters");
}

class OnlyOnTheHost : public Layer {
 public:
  static LayerType describe() {
    LayerType type;
    type.type = "OnlyOnTheHost";
    type.help = "has no half for a device";
    return type;
  }
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan&) override {
    return bottoms;
  }
  void forward(const Context&, Tensors, Tensors) override {}
};
KINET_REGISTER_LAYER(OnlyOnTheHost);

TEST_F(DeviceNet, ALayerWithoutAHalfThereIsRefused) {
  const std::string text = kInput + layer("OnlyOnTheHost", "alone", "data", "x");
  const auto& device = device_;
  const std::string error = error_of([&] { net_on(device, text); });
  EXPECT_HAS(error, "test.prototxt:2:");
  EXPECT_HAS(error, "layer 'alone' (OnlyOnTheHost): type OnlyOnTheHost does not run on GPU 0");
  EXPECT_HAS(error, "hint: run this net on the CPU with solver_mode: CPU");
}

TEST_F(DeviceOfBackend, HasAHalfForEveryLayerThatNeedsOne) {
  const std::vector<std::string> there = backend_under_test().layer_types();
  for (const std::string& type : LayerRegistry::instance().names()) {
    if (LayerRegistry::instance().find(type)->host_ok || type == "OnlyOnTheHost") continue;
    EXPECT_NE(std::find(there.begin(), there.end(), type), there.end()) << type;
  }
  const std::vector<std::string> rules = backend_under_test().optimizer_types();
  EXPECT_EQ(rules, OptimizerRegistry::instance().names());
}

TEST_F(DeviceOfBackend, TellsOfItself) {
  for (const DeviceInfo& d : backend_under_test().devices()) {
    EXPECT_NE(d.name, "");
    EXPECT_NE(d.bus, "");
    EXPECT_NE(d.limits.computed_from, "");
    EXPECT_GT(d.multiprocessors, 0);
    EXPECT_GT(backend_under_test().free_bytes(d.id), 0U);
    EXPECT_LE(backend_under_test().free_bytes(d.id), d.memory_bytes);
    for (const int peer : d.peers) EXPECT_NE(peer, d.id);
  }
  EXPECT_EQ(backend_under_test().free_bytes(1000), 0U);  // no such device
  EXPECT_GT(backend_under_test().free_bytes(0), 0U);     // and the error is not kept
}

#ifndef KINET_TEST_ON_GPU

// The emulated device has 4 multiprocessors and a bus of 256 bits, all at 1 GHz.
TEST_F(DeviceOfBackend, LimitsFollowFromClocksAndWidths) {
  struct Expected {
    int capability;
    double flops, tensor_flops;
    const char* from;
  };
  const emulation::Options before = emulation::options();
  for (const Expected& e :
       {Expected{80, 512e9, 4096e9, "4 multiprocessors x 64 multiply-adds x 1.00"},
        {90, 1024e9, 8192e9, "4 multiprocessors x 128 multiply-adds"},
        {89, 1024e9, 0, "4 multiprocessors x 128 multiply-adds"},
        {70, 0, 0, "arithmetic: unknown for sm_70"}}) {
    emulation::Options options = before;
    options.compute_capability = e.capability;
    emulation::set_options(options);
    const DeviceLimits limits = backend_under_test().devices().at(0).limits;
    EXPECT_DOUBLE_EQ(limits.flops, e.flops);
    EXPECT_DOUBLE_EQ(limits.tensor_flops, e.tensor_flops);
    EXPECT_DOUBLE_EQ(limits.bytes_per_second, 64e9);
    EXPECT_HAS(limits.computed_from, e.from);
    EXPECT_HAS(limits.computed_from, "2 x 1.00 GHz x 256 bits");
  }
  emulation::set_options(before);
}

#endif

TEST_F(DeviceOfBackend, ADeviceThatIsNotThereIsRefused) {
  const auto count = static_cast<int>(backend_under_test().devices().size());
  EXPECT_HAS(error_of([&] { backend_under_test().open(count); }),
             fmt::format("there is no GPU {}: this machine has GPU", count));
  EXPECT_HAS(error_of([&] { backend_under_test().open(count); }),
             "\nhint: 'kinet devices' lists them");
}

}  // namespace
}  // namespace kinet::test
