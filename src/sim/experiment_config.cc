#include "src/sim/experiment_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/sync/sync.h"

namespace kinet {
namespace {

// An objective stands for a net, but a solver file has to name one.
constexpr const char* kNoNet = R"(
net_param {
  name: "objective"
  layer { name: "nothing" type: "Input" top: "nothing" input_param { shape { dim: 1 } } }
}
)";
// Length and rate of a run come from the experiment.
constexpr const char* kNoSolver = "max_iter: 1 base_lr: 1\n";

bool names_net(const ParamNode& root) {
  return std::any_of(root.children.begin(), root.children.end(), [](const ParamNode& child) {
    return child.name == "net" || child.name == "net_param" || child.name == "train_net" ||
           child.name == "train_net_param";
  });
}

// Messages about a strategy's file name lines of a text that nobody has seen: only what is wrong
// stays, below the place of the strategy.
[[noreturn]] void fail_strategy(const Experiment& experiment, const Strategy& strategy,
                                const std::string& message) {
  std::string out;
  std::istringstream lines(message);
  const std::string shown = experiment.solver.empty() ? experiment.path : experiment.solver;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(shown + ":", 0) == 0) {
      const size_t end = line.find(": ", shown.size());
      if (end != std::string::npos) line = line.substr(end + 2);
    }
    const bool hint = line.rfind("hint: ", 0) == 0;
    out += (out.empty() ? "" : hint ? "\n" : "; ") + line;
  }
  fail_at(strategy.where, fmt::format("strategy '{}': {}", strategy.name, out));
}

template <class Work>
auto about_strategy(const Experiment& experiment, const Strategy& strategy, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    fail_strategy(experiment, strategy, error.what());
  }
}

}  // namespace

ParamNode read_solver_root(const Experiment& experiment) {
  const std::string text = experiment.solver.empty() ? kNoSolver : read_file(experiment.solver);
  const std::string name = experiment.solver.empty() ? experiment.path : experiment.solver;
  Diagnostics diagnostics;
  ParamNode root = parse_prototxt(text, name, diagnostics);
  diagnostics.throw_if_any();
  if (!experiment.objective.empty() && !names_net(root)) {
    const ParamNode net = parse_prototxt(kNoNet, name, diagnostics);
    root.children.insert(root.children.end(), net.children.begin(), net.children.end());
  } else if (experiment.objective.empty()) {
    SolverConfig::parse(text, name, experiment.set);  // its faults with their places, once
  }
  return root;
}

std::shared_ptr<const SolverConfig> Experiment::config(const Strategy& strategy, double rate,
                                                       const std::vector<std::string>& more) const {
  ParamNode root = solver_root_;
  if (strategy.sync_param.name == "sync_param") {
    root.erase("sync_param");
    root.children.push_back(strategy.sync_param);
  }
  std::vector<std::string> all = set;
  all.insert(all.end(), strategy.set.begin(), strategy.set.end());
  if (rate > 0) all.push_back(fmt::format("base_lr={}", rate));
  all.insert(all.end(), more.begin(), more.end());
  return SolverConfig::parse(root.to_text(), solver.empty() ? path : solver, all);
}

std::vector<std::string> Experiment::set_at(const Strategy& strategy, int workers) const {
  std::vector<std::string> out;
  for (const auto* each : {&at_workers, &strategy.at_workers}) {
    for (const WorkersSet& at : *each) {
      if (at.workers == workers) out.insert(out.end(), at.set.begin(), at.set.end());
    }
  }
  return out;
}

void settle_rates(Experiment& experiment) {
  for (Strategy& strategy : experiment.strategies) {
    std::vector<double>& rates = strategy.rates;
    const bool settled = !rates.empty() && rates[0] > 0;
    if (!settled) {
      if (experiment.solver.empty()) {
        fail_at(strategy.where, fmt::format("strategy '{}' has no learning rate, and there is no "
                                            "solver file to have one\nhint: rate: [0.05, 0.1]",
                                            strategy.name));
      }
      const double base = about_strategy(experiment, strategy, [&] {
        return experiment.config(strategy, 0)->params().get_double("base_lr");
      });
      if (rates.empty()) rates = {-1};
      for (double& rate : rates) rate *= -base;
    }
    std::sort(rates.begin(), rates.end());
    rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  }
}

void check_strategies(const Experiment& experiment) {
  for (const Strategy& strategy : experiment.strategies) {
    about_strategy(experiment, strategy, [&] {
      const auto config = experiment.config(strategy, strategy.rates.front());
      const Params params = config->params();
      SyncSetup setup;
      setup.momentum = params.get_double("momentum");
      setup.solver_type = params.get_string("type");
      for (const int workers : experiment.workers) {
        setup.workers = workers;
        const auto at = experiment.config(strategy, strategy.rates.front(),
                                          experiment.set_at(strategy, workers));
        make_sync_model(at->params().message("sync_param"), setup);
      }
      if (experiment.tests == 0 && params.get_int("test_interval") == 0) {
        fail(
            "nothing would be tested\nhint: tests: 20 in the experiment, or test_interval in the "
            "solver");
      }
    });
  }
}

}  // namespace kinet
