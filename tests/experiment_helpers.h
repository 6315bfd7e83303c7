// What the tests of experiments share: a folder with an experiment's files, and runners that answer
// by a script instead of training.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/sim/experiment_grid.h"
#include "tests/data_files.h"

namespace kinet {

constexpr const char* kExperimentSolver = R"(
net_param {
  layer { name: "d" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 2 dim: 3 } } }
  layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 3 } }
  layer { name: "l" type: "EuclideanLoss" bottom: "ip" bottom: "y" top: "l" }
}
base_lr: 0.1 max_iter: 5 test_interval: 1 momentum: 0.9
)";

// An experiment in a folder of its own: solver.prototxt, a.prototxt and b.prototxt (clusters).
class ExperimentFolder {
 public:
  ExperimentFolder() {
    folder_.write("solver.prototxt", kExperimentSolver);
    folder_.write("a.prototxt", "name: \"a\"\n");
    folder_.write("b.prototxt", "name: \"b\"\n");
  }
  Experiment parse(const std::string& text) const {
    return Experiment::parse(text, folder_ / "experiment.prototxt");
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

// A run with tests at 1, 2, ... seconds, 100 samples a second.
inline VirtualResult scripted_run(const std::vector<double>& accuracies, double seconds = 1) {
  VirtualResult run;
  for (const double accuracy : accuracies) {
    const double at = seconds * static_cast<double>(run.tests.size() + 1);
    run.tests.push_back({at, at, std::llround(100 * at), 1 - accuracy, accuracy});
  }
  run.seconds = run.tests.empty() ? 0 : run.tests.back().seconds;
  run.samples = run.tests.empty() ? 0 : run.tests.back().samples;
  return run;
}

class ScriptedRunner : public CellRunner {
 public:
  using Script = std::function<VirtualResult(const Cell&)>;
  ScriptedRunner(const Experiment& experiment, Script script)
      : experiment_(experiment), script_(std::move(script)) {}

  std::string depends(const Cell& cell) override {
    return cell_label(experiment_, cell) + versions[cell.strategy];
  }
  double work(const Cell& cell) override { return cell.part; }
  CellResult run(const Cell& cell, const std::atomic<bool>&) override {
    {
      const std::lock_guard lock(mutex_);
      ran.push_back(cell);
      if (before) before(ran.size());
    }
    CellResult out;
    out.run = script_(cell);
    return out;
  }

  std::vector<Cell> ran;
  std::function<void(size_t count)> before;  // called with each run
  std::map<int, std::string> versions;       // of strategies: another one, other results

 private:
  const Experiment& experiment_;
  Script script_;
  std::mutex mutex_;
};

}  // namespace kinet
