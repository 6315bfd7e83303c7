#include "src/sim/experiment_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/sim/experiment_store.h"
#include "src/sim/net_problem.h"
#include "src/sim/quadratic_problem.h"

namespace kinet {
namespace {

constexpr int kMeasured = 4;  // gradients whose mean time is taken, after one that warms up

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

// What the sizes and times of a problem depend on, beside the experiment's own files.
std::string problem_key(const SolverConfig& config, int workers) {
  const Params solver = config.params();
  const bool divided = solver.message("sync_param").get_bool("fixed_global_batch");
  return fmt::format("{} {} {}", solver.get_int("iter_size"), divided ? workers : 0,
                     CellStore::key(config.train_net().to_text()));
}

}  // namespace

CellLength cell_length(double iterations, double scale, double part, int64_t tests,
                       int64_t interval) {
  CellLength out;
  const double all = iterations * scale;
  const double step =
      tests > 0 ? all / static_cast<double>(tests) : static_cast<double>(interval) * scale;
  out.test_interval = std::max<int64_t>(1, std::llround(step));
  const auto whole_steps = [&](double length) {
    const auto steps = std::llround(length / static_cast<double>(out.test_interval));
    return std::max<int64_t>(1, steps) * out.test_interval;
  };
  out.whole = whole_steps(all);
  out.end = whole_steps(all * part);
  return out;
}

VirtualRunner::VirtualRunner(const Experiment& experiment) : experiment_(experiment) {
  std::vector<std::string> clusters = experiment.clusters;
  if (!experiment.tune_cluster.empty()) clusters.push_back(experiment.tune_cluster);
  for (const std::string& path : clusters) {
    ClusterProfile::load(path, experiment.seeds.front(), experiment.cluster_set);  // for its errors
    files_[path] = read_file(path);
  }
  if (!experiment.objective.empty()) files_[experiment.objective] = read_file(experiment.objective);
  std::map<std::string, Costs> costs;
  for (size_t s = 0; s < experiment.strategies.size(); ++s) {
    const Strategy& strategy = experiment.strategies[s];
    for (const int workers : experiment.workers) {
      const auto config =
          experiment.config(strategy, strategy.rates.front(), experiment.set_at(strategy, workers));
      const std::string key = problem_key(*config, workers);
      if (costs.count(key) == 0) costs[key] = measure(config, workers);
      plans_[{static_cast<int>(s), workers}] = make_plan(config->params(), workers, costs[key]);
    }
  }
}

VirtualRunner::Costs VirtualRunner::measure(const std::shared_ptr<const SolverConfig>& config,
                                            int workers) {
  const auto problem = make_problem(config, workers, experiment_.seeds.front());
  std::vector<float> weights(problem->floats()), buffers(problem->buffers());
  std::vector<float> gradient(problem->floats());
  problem->start(weights, buffers);
  int64_t batch = 0;
  const auto compute = [&] {
    problem->gradient(0, weights, buffers, 0, workers, batch++, gradient);
  };
  Costs out;
  out.batch = problem->batch_size();
  out.items = problem->items();
  compute();
  out.gradient = seconds_of([&] {
    for (int i = 0; i < kMeasured; ++i) compute();
  });
  out.gradient /= kMeasured;
  ProblemScore score;
  out.test = seconds_of([&] { score = problem->test(0, weights, buffers); });
  KINET_CHECK(experiment_.measure == Measure::kLoss || score.accuracy >= 0,
              "{}: what is trained has no accuracy in its tests\nhint: an Accuracy layer in the "
              "test net, or measure: LOSS",
              experiment_.path);
  KINET_CHECK(experiment_.epochs == 0 || out.items > 0,
              "{}: what is trained has no epochs\nhint: max_iter in place of epochs",
              experiment_.path);
  if (description_.empty()) {
    description_ = fmt::format("{}; here a gradient takes {:.3g} ms and a test {:.3g} ms",
                               problem->describe(), 1e3 * out.gradient, 1e3 * out.test);
  }
  return out;
}

VirtualRunner::Plan VirtualRunner::make_plan(const Params& solver, int workers,
                                             const Costs& costs) const {
  const double per_iteration = static_cast<double>(costs.batch) * workers;
  const double iterations =
      experiment_.epochs > 0 ? experiment_.epochs * static_cast<double>(costs.items) / per_iteration
                             : static_cast<double>(experiment_.max_iter);
  const double push = solver.message("sync_param").get_double("push_weight");
  Plan out;
  out.length = cell_length(iterations, push > 0 ? push * workers : 1, 1, experiment_.tests,
                           solver.get_int("test_interval"));
  const int64_t tests = out.length.whole / out.length.test_interval + 1;  // and one before it
  out.real_seconds =
      iterations * workers * costs.gradient + static_cast<double>(tests) * costs.test;
  return out;
}

std::unique_ptr<Problem> VirtualRunner::make_problem(
    const std::shared_ptr<const SolverConfig>& config, int workers, uint64_t seed) const {
  if (!experiment_.objective.empty()) {
    return load_objective(experiment_.objective, seed, experiment_.objective_set);
  }
  NetProblemOptions options;
  options.seed = seed;
  options.workers = workers;
  options.lanes = 1;
  options.weights = config->params().get_strings("weights");
  return std::make_unique<NetProblem>(config, options);
}

const VirtualRunner::Plan& VirtualRunner::plan(const Cell& cell) const {
  return plans_.at({cell.strategy, cell.setting.workers});
}

CellLength VirtualRunner::length(const Cell& cell) const {
  const CellLength& whole = plan(cell).length;
  CellLength out =
      cell_length(static_cast<double>(whole.whole), 1, cell.part, 0, whole.test_interval);
  out.whole = whole.whole;
  return out;
}

std::shared_ptr<const SolverConfig> VirtualRunner::config(const Cell& cell) const {
  const CellLength length = plan(cell).length;
  const Strategy& strategy = experiment_.strategies[static_cast<size_t>(cell.strategy)];
  std::vector<std::string> more = experiment_.set_at(strategy, cell.setting.workers);
  for (const std::string& field : {fmt::format("max_iter={}", length.whole),
                                   fmt::format("test_interval={}", length.test_interval)}) {
    more.push_back(field);
  }
  more.insert(more.end(), {"display=0", "snapshot=0", "test_initialization=true"});
  return experiment_.config(strategy, cell.rate, more);
}

const std::string& VirtualRunner::cluster_path(const Cell& cell) const {
  return cell.setting.cluster < 0 ? experiment_.tune_cluster
                                  : experiment_.clusters[static_cast<size_t>(cell.setting.cluster)];
}

std::string VirtualRunner::depends(const Cell& cell) {
  const auto config = this->config(cell);
  std::string out = fmt::format("workers {} seed {} end {} seconds {}\n", cell.setting.workers,
                                cell.seed, length(cell).end, experiment_.max_seconds * cell.part);
  out += "solver\n" + config->params().node()->to_text();
  out += "cluster\n" + files_.at(cluster_path(cell)) + join(experiment_.cluster_set, "\n");
  if (!experiment_.objective.empty()) {
    return out + "objective\n" + files_.at(experiment_.objective) +
           join(experiment_.objective_set, "\n");
  }
  out += "net\n" + config->train_net().to_text();
  for (int i = 0; i < config->test_net_count(); ++i) {
    out += "test net\n" + config->test_net(i).to_text();
  }
  for (const std::string& weights : config->params().get_strings("weights")) {
    out += "weights " + CellStore::key(read_file(weights)) + "\n";
  }
  return out;
}

double VirtualRunner::work(const Cell& cell) { return plan(cell).real_seconds * cell.part; }

CellResult VirtualRunner::run(const Cell& cell, const std::atomic<bool>& stop) {
  VirtualSpec spec;
  spec.config = config(cell);
  spec.cluster = ClusterProfile::load(cluster_path(cell), cell.seed, experiment_.cluster_set);
  spec.workers = cell.setting.workers;
  spec.end = length(cell).end;
  spec.schedule_end = length(cell).whole;
  if (experiment_.max_seconds > 0) spec.max_seconds = experiment_.max_seconds * cell.part;
  spec.seed = cell.seed;
  spec.stop = &stop;
  const auto problem = make_problem(spec.config, spec.workers, cell.seed);
  CellResult out;
  out.run = run_virtual(*problem, spec, nullptr);
  out.run.weights.clear();
  return out;
}

}  // namespace kinet
