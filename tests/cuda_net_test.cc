// ctest: labels=unit,core timeout=120 device
// Whole nets on the CUDA device: two iterations of training end at the CPU's weights, every layer
// launches kernels of its own, and nothing is reported. In check mode (cuda_net_test_checked) this
// looks at every access of a training run; a net whose memory is taken away proves that it does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "src/base/files.h"
#include "src/base/text.h"
#include "tests/cuda/device_under_test.h"
#include "tests/solver_helpers.h"

namespace kinet {
namespace {

// Convolution, batch norm, a residual block whose shortcut is strided, average pooling.
std::string residual_net(const std::string& data) {
  const auto conv = [](const std::string& name, const std::string& bottom,
                       const std::string& more) {
    return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" +
           name + "' convolution_param { bias_term: false weight_filler { type: 'msra' } " + more +
           " } }\n";
  };
  const auto norm = [](const std::string& blob, bool relu) {
    const auto in_place = [&](const std::string& type, const std::string& more) {
      return "layer { name: '" + type + "_" + blob + "' type: '" + type + "' bottom: '" + blob +
             "' top: '" + blob + "' " + more + " }\n";
    };
    return in_place("BatchNorm", "") + in_place("Scale", "scale_param { bias_term: true }") +
           (relu ? in_place("ReLU", "") : "");
  };
  return "name: 'residual'\n" + data + conv("conv", "data", "num_output: 8 kernel_size: 3 pad: 1") +
         norm("conv", true) + conv("half", "conv", "num_output: 12 kernel_size: 1 stride: 2") +
         norm("half", false) + conv("a", "conv", "num_output: 12 kernel_size: 3 pad: 1 stride: 2") +
         norm("a", true) + conv("b", "a", "num_output: 12 kernel_size: 3 pad: 1") +
         norm("b", false) +
         "layer { name: 'sum' type: 'Eltwise' bottom: 'half' bottom: 'b' top: 'sum' }\n"
         "layer { name: 'relu_sum' type: 'ReLU' bottom: 'sum' top: 'sum' }\n"
         "layer { name: 'pool' type: 'Pooling' bottom: 'sum' top: 'pool' pooling_param { pool: AVE "
         "global_pooling: true } }\n"
         "layer { name: 'fc' type: 'InnerProduct' bottom: 'pool' top: 'fc' inner_product_param { "
         "num_output: 3 weight_filler { type: 'msra' } } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' "
         "}\n";
}

class CudaNet : public DeviceTest {
 protected:
  // models/lenet/net.prototxt with four images at a time of the tests' own.
  std::string lenet() {
    write_images(folder_, "lenet", 16, 28);
    std::string text = read_file(std::string(KINET_SOURCE_DIR) + "/models/lenet/net.prototxt");
    const std::string there = "/usr/share/datasets/fashion-mnist/";
    for (const std::string set : {"train", "t10k"}) {
      replace(text, there + set + "-images-idx3-ubyte.gz", folder_ / "lenet-images");
      replace(text, there + set + "-labels-idx1-ubyte.gz", folder_ / "lenet-labels");
    }
    replace(text, "batch_size: 64", "batch_size: 4");
    return text;
  }
  std::string residual() {
    write_images(folder_, "residual", 16, 12);
    return residual_net(data_layer(folder_, "residual", 4, "TRAIN"));
  }

  std::unique_ptr<TestRun> make_run(const std::string& net, bool on_device) {
    SolverOptions options;
    options.output_folder = folder_.str();
    if (on_device) options.device = device_;
    return std::make_unique<TestRun>(
        "net_param { " + net +
            "}\nbase_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.0005 max_iter: 2 "
            "random_seed: 1" +
            kNoSnapshot,
        options);
  }

  void expect_two_iterations_of_the_cpu(const std::string& net) {
    const auto cpu = make_run(net, false), gpu = make_run(net, true);
    cpu->run(), gpu->run();
    ASSERT_EQ(gpu->seen.losses.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(gpu->seen.losses[i], cpu->seen.losses[i], 1e-4 * cpu->seen.losses[i]) << i;
    }
    const std::vector<float> a = state_of(*gpu->solver), b = state_of(*cpu->solver);
    ASSERT_EQ(a.size(), b.size());
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(double{a[i]} - b[i], 2);
      size += std::pow(double{b[i]}, 2);
    }
    EXPECT_LT(std::sqrt(difference / size), 1e-4);
    EXPECT_EQ(device_reports(), "");
  }

#ifndef KINET_TEST_ON_GPU
  // After a fault, which is for good otherwise. What was allocated there goes first.
  void clear_device() {
    device_.reset();
    emulation::reset();
  }
#endif

  TemporaryFolder folder_;

 private:
  static void replace(std::string& text, const std::string& what, const std::string& with) {
    const size_t at = text.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), with);
  }
};

TEST_F(CudaNet, TwoIterationsOfLenet) { expect_two_iterations_of_the_cpu(lenet()); }

TEST_F(CudaNet, TwoIterationsOfAResidualNet) { expect_two_iterations_of_the_cpu(residual()); }

#ifndef KINET_TEST_ON_GPU

bool checked() {
  const char* library = std::getenv("KINET_CUDA_LIBRARY");
  return library != nullptr && std::string(library) == "checked";
}

// What `run` does to the counters: {launches, checked accesses}.
template <class Run>
void expect_kernels(const std::string& what, const Run& run) {
  const emulation::Counters before = emulation::counters();
  run();
  const emulation::Counters after = emulation::counters();
  EXPECT_GT(after.launches, before.launches) << what;
  if (!checked()) return;
  EXPECT_GT(after.accesses, before.accesses) << what;
}

TEST_F(CudaNet, EveryLayerLaunchesKernels) {
  for (const std::string& text : {lenet(), residual()}) {
    const auto run = make_run(text, true);
    Net& net = run->solver->train_net();
    const auto each_layer = [&](const auto& visit) {
      for (int i = 0; i < net.layer_count(); ++i) {
        const bool runs =
            net.layer(i).type().top_memory == TopMemory::kOwn && net.fused_into(i) < 0;
        if (net.layer_on_device(i)) visit(i, runs, net.name() + ", " + net.layer(i).name());
      }
    };
    int layers = 0;
    for (int i = 0; i < net.layer_count(); ++i) {
      if (!net.layer_on_device(i)) net.forward_layer(Context{}, i);
    }
    each_layer([&](int i, bool runs, const std::string& name) {
      if (runs) expect_kernels(name, [&] { net.forward_layer(Context{}, i); });
      ++layers;
    });
    EXPECT_GE(layers, 8);
    net.backward_layer(Context{}, net.layer_count() - 1);
    for (int i = net.layer_count() - 2; i >= 0; --i) {
      if (!net.layer_on_device(i) || !net.layer_runs_backward(i)) continue;
      expect_kernels("backward of " + net.layer(i).name(),
                     [&] { net.backward_layer(Context{}, i); });
    }
  }
}

TEST_F(CudaNet, ANormOfOneValueTooManyIsReportedInCheckMode) {
  if (!checked()) GTEST_SKIP() << "fast mode looks at no accesses";
  float* const memory = device_->allocate(300);
  EXPECT_EQ(device_->norm(memory, 300), 0);
  EXPECT_EQ(device_reports(), "");
  EXPECT_ANY_THROW(device_->norm(memory, 301));
  const std::string reports = device_reports();
  EXPECT_NE(reports.find("out of bounds"), std::string::npos) << reports;
  clear_device();
}

TEST_F(CudaNet, MemoryTakenFromUnderANetIsReportedInCheckMode) {
  if (!checked()) GTEST_SKIP() << "fast mode looks at no accesses";
  auto run = make_run(residual(), true);
  Net& net = run->solver->train_net();
  net.forward(Context{});
  EXPECT_EQ(device_reports(), "");
  device_->release(net.blob("sum")->device_data());
  EXPECT_ANY_THROW(net.backward(Context{}));
  const std::string reports = device_reports();
  EXPECT_NE(reports.find("out of bounds"), std::string::npos) << reports;
  run.reset();
  clear_device();
}

#endif

}  // namespace
}  // namespace kinet
