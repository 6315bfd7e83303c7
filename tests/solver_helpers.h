// What the tests of the solver share: a recording observer, small data sets, small nets, and short
// forms for building and running solvers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/solver/solver.h"
#include "tests/data_files.h"

namespace kinet {

struct Recorder : SolverObserver {
  std::vector<StartRecord> starts;
  std::vector<DisplayRecord> displays;
  std::vector<TestRecord> tests;
  std::vector<RoundRecord> rounds;
  std::vector<FinishRecord> finishes;
  std::vector<std::pair<int64_t, std::string>> snapshots;
  std::vector<std::string> notes, warnings;
  std::vector<double> losses;
  std::vector<int64_t> iterations;
  std::function<void(int64_t)> after_iteration, after_test;

  void on_start(const StartRecord& r) override { starts.push_back(r); }
  void on_iteration(int64_t iteration, double loss) override {
    iterations.push_back(iteration);
    losses.push_back(loss);
    if (after_iteration) after_iteration(iteration);
  }
  void on_round(const RoundRecord& r) override { rounds.push_back(r); }
  void on_display(const DisplayRecord& r) override { displays.push_back(r); }
  void on_test(const TestRecord& r) override {
    tests.push_back(r);
    if (after_test) after_test(r.iteration);
  }
  void on_snapshot(int64_t iteration, const std::string& path) override {
    snapshots.emplace_back(iteration, path);
  }
  void on_note(const std::string& text) override { notes.push_back(text); }
  void on_warning(const std::string& text) override { warnings.push_back(text); }
  void on_finish(const FinishRecord& r) override { finishes.push_back(r); }

  bool has_note(const std::string& part) const {
    for (const std::string& note : notes) {
      if (note.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

// A solver with the observer it reports to.
struct TestRun {
  Recorder seen;
  SolverControl control;
  std::unique_ptr<Solver> solver;

  explicit TestRun(const std::string& text, const SolverOptions& options = {}) {
    solver = std::make_unique<Solver>(SolverConfig::parse(text, "solver.prototxt"),
                                      with_threads(options), seen);
  }
  FinishRecord run() { return solver->run(control); }

  static SolverOptions with_threads(SolverOptions options) {
    if (options.threads == 0) options.threads = 1;
    return options;
  }
};

// Everything a run leaves in memory, bit for bit: weights, buffers, history.
inline std::vector<float> state_of(Solver& solver) {
  std::vector<float> out;
  for (const auto& part :
       {std::span<const float>(solver.train_net().parameter_arena()),
        std::span<const float>(solver.train_net().buffer_arena()), solver.history()}) {
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

// IDX files of `items` random images of 1 x side x side whose label (of 3) can be seen in them.
inline void write_images(const TemporaryFolder& folder, const std::string& name, int items,
                         int side = 6) {
  std::string pixels, labels;
  Rng rng(99, RngPurpose::kTest, hash_name(name));
  for (int i = 0; i < items; ++i) {
    const int label = i * 7 % 3;
    for (int p = 0; p < side * side; ++p) {
      const bool bright = p % 3 == label;
      pixels += static_cast<char>(rng.below(60) + (bright ? 120 : 20));
    }
    labels += static_cast<char>(label);
  }
  folder.write(name + "-images", idx_bytes({items, side, side}, pixels));
  folder.write(name + "-labels", idx_bytes({items}, labels));
}

// A layer that reads them. `more` goes into mnist_data_param, `transform` into transform_param.
inline std::string data_layer(const TemporaryFolder& folder, const std::string& name, int batch,
                              const std::string& phase, const std::string& more = "",
                              const std::string& transform = "") {
  return "layer { name: 'data' type: 'MnistData' top: 'data' top: 'label' include { phase: " +
         phase + " } transform_param { scale: 0.004 " + transform +
         " } mnist_data_param { images: '" + folder / (name + "-images") + "' labels: '" +
         folder / (name + "-labels") + "' batch_size: " + std::to_string(batch) + " " + more +
         " } }\n";
}

// A classifier of 3 classes over 'data' and 'label': two full layers with `between` between them,
// accuracy in TEST.
inline const std::string kRelu = "layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n";
inline std::string classifier(const std::string& between = kRelu) {
  const std::string fill = " weight_filler { type: 'xavier' } } }\n";
  return "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1' "
         "inner_product_param { num_output: 8" +
         fill + between +
         "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' "
         "inner_product_param { num_output: 3" +
         fill +
         "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip2' bottom: 'label' top: 'accuracy' "
         "include { phase: TEST } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' "
         "}\n";
}

// "net_param { ... }" and the rest of a solver file.
inline std::string solver_text(const std::string& net, const std::string& fields) {
  return "net_param { name: 'small'\n" + net + "}\n" + fields + "\n";
}

inline const std::string kNoSnapshot = " snapshot_after_train: false ";

// Every test runs in a folder of its own with 23 images to train on and 7 to test.
class SolverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_, "train", 23);
    write_images(folder_, "test", 7);
    options_.output_folder = folder_.str();
  }

  std::string net(const std::string& between = kRelu, int train_batch = 4,
                  int test_batch = 3) const {
    return data_layer(folder_, "train", train_batch, "TRAIN") +
           data_layer(folder_, "test", test_batch, "TEST") + classifier(between);
  }

  TemporaryFolder folder_;
  SolverOptions options_;
};

}  // namespace kinet
