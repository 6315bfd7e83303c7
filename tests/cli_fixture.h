// A scratch folder with a tiny net, its solver and 20 images, for tests that run the program.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/base/files.h"
#include "tests/data_files.h"
#include "tests/subprocess.h"

namespace kinet {

// 20 images of 6 x 6 whose pixels are the item's number, label = item % 10.
constexpr const char* kTinyNet = R"(name: "tiny"
layer {
  name: "data" type: "MnistData" top: "data" top: "label"
  transform_param { scale: 0.05 }
  mnist_data_param { images: "images-idx3" labels: "labels-idx1" batch_size: 4 }
}
layer {
  name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } }
}
layer {
  name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy"
  include { phase: TEST }
}
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

constexpr const char* kTinySolver = R"(net: "net.prototxt"
base_lr: 0.01 lr_policy: "inv" gamma: 0.0001 power: 0.75 momentum: 0.9
max_iter: 3 display: 1 test_interval: 2
random_seed: 5
)";

class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    write_counting_idx(folder_, 20, 6, 6);
    folder_.write("net.prototxt", kTinyNet);
    folder_.write("solver.prototxt", kTinySolver);
  }

  ProcessResult kinet(const std::vector<std::string>& arguments) const {
    return run_kinet(arguments, folder_.str());
  }

  // Trains the tiny net and returns the path of its weights, relative to the folder.
  std::string trained_weights() const {
    const ProcessResult r = kinet({"train", "solver.prototxt", "--out", "run", "--threads", "1"});
    EXPECT_EQ(r.status, 0) << r.out << r.err;
    return "run/solver_iter_3.caffemodel";
  }

  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  // Files of the run directory that end so.
  int count_files(const std::string& folder, const std::string& ending) const {
    int count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / folder)) {
      count += entry.path().string().ends_with(ending);
    }
    return count;
  }

  TemporaryFolder folder_;
};

}  // namespace kinet
