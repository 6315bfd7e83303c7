// kinet test: scores weights on the test set, every item exactly once.
//
// The pass is the one that training makes (solver/test_pass.h), so the figures are the same bits as
// those of a test at that iteration.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/command.h"
#include "src/cli/gpu_flag.h"
#include "src/cli/load_weights.h"
#include "src/cli/net_summary.h"
#include "src/cli/options.h"
#include "src/solver/solver.h"
#include "src/solver/test_pass.h"

namespace kinet {
namespace {

class Test : public Command {
 public:
  static CommandType describe() {
    return {"test", "score weights on the test set, every item exactly once",
            "kinet test models/lenet/net.prototxt --weights lenet.caffemodel"};
  }

  void configure(CLI::App& app) override {
    app.add_option("FILE", file_, "net file, or solver file for its test nets")->required();
    add_weights_flag(app, weights_);
    app.add_option("--iterations", iterations_, "batches to score instead of the whole set")
        ->check(CLI::PositiveNumber);
    app.add_option("--net-state", stages_, "stages of the net's state: a,b")
        ->delimiter(',')
        ->allow_extra_args(false);
    add_threads_flag(app, threads_);
    add_gpu_flag(app, gpu_);
  }

  int run() override {
    require_file(file_, "test");
    KINET_CHECK(!weights_.empty(),
                "test: --weights is required\nhint: 'kinet train' writes a "
                ".caffemodel at every snapshot and at its end");
    for (const std::string& path : weights_) require_file(path, "--weights");
    if (!is_solver_file(file_)) {
      NetState state;
      state.phase = Phase::kTest;
      const ParamNode root = load_net_file(file_);
      device_ = open_gpu(gpu_);
      score(root, merge_state(root, state), 0);
      return 0;
    }
    const auto config = SolverConfig::load(file_);
    KINET_CHECK(config->test_net_count() > 0, "{}: the solver file has no test net", file_);
    const Params solver = config->params();
    device_ = open_gpu(gpu_, &solver);
    for (int i = 0; i < config->test_net_count(); ++i) {
      score(config->test_net(i), config->test_state(i), i);
    }
    return 0;
  }

 private:
  void score(const ParamNode& root, NetState state, int index) {
    state.stages.insert(state.stages.end(), stages_.begin(), stages_.end());
    NetOptions options;
    options.state = state;
    options.threads = resolve_threads(threads_);
    options.device = device_;
    Net net(root, options);
    for (const std::string& line : load_all_weights(weights_, net)) {
      std::printf("%s\n", line.c_str());
    }
    TestPlan plan;
    plan.net = index;
    plan.batches = batches_for(net);
    Context context;
    context.phase = Phase::kTest;
    context.threads = options.threads;
    print(*run_test_pass(net, plan, context, nullptr));
  }

  // Without a data set (Input, DummyData) there is no whole: one batch, unless told otherwise.
  std::optional<int64_t> batches_for(const Net& net) const {
    if (iterations_ > 0) return iterations_;
    if (net.batch_sources().empty()) return 1;
    return std::nullopt;
  }

  static void print(const TestRecord& r) {
    for (size_t i = 0; i < r.outputs.size(); ++i) {
      const OutputValue& output = r.outputs[i];
      const bool is_loss = output.loss_weight != 0;
      std::printf(
          "    Test net output #%zu: %s\n", i,
          is_loss ? fmt::format("{} = {:.6g} (* {:.6g} = {:.6g} loss)", output.name, output.value,
                                output.loss_weight, output.loss_weight * output.value)
                        .c_str()
                  : fmt::format("{} = {:.6g}", output.name, output.value).c_str());
    }
    std::string line = with_commas(r.items) + " items";
    if (r.set_items > 0) line += " of " + with_commas(r.set_items);
    line += fmt::format(" scored in {:.2f} s", r.seconds);
    if (!r.coverage.empty()) line += "; " + r.coverage;
    std::printf("%s\n", line.c_str());
  }

  std::string file_, gpu_;
  std::shared_ptr<Device> device_;  // null: the CPU
  std::vector<std::string> weights_, stages_;
  int64_t iterations_ = 0;
  int threads_ = 0;
};
KINET_REGISTER_COMMAND(Test);

}  // namespace
}  // namespace kinet
