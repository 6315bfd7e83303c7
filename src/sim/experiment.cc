// Reading an experiment file. What fields mean together is checked here; that every strategy makes
// a solver file that can be run, in experiment_config.cc.
#include "src/sim/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/prototxt/value.h"
#include "src/sim/experiment_config.h"

namespace kinet {
namespace {

// get_floats() would make 0.1 the double that is nearest to the float 0.1.
std::vector<double> doubles(const Params& params, const std::string& field) {
  std::vector<double> out;
  if (params.node() == nullptr) return out;
  for (const ParamNode* child : params.node()->find_all(field)) out.push_back(real_of(*child));
  return out;
}

template <class T>
std::string first_twice(const std::vector<T>& values) {
  std::set<T> seen;
  for (const T& value : values) {
    if (!seen.insert(value).second) return fmt::format("{}", value);
  }
  return "";
}

class Reader {
 public:
  Reader(const Params& file, Experiment& out, Diagnostics& diagnostics)
      : file_(file), out_(out), diagnostics_(diagnostics) {}

  void read() {
    out_.name = file_.has("name") ? file_.get_string("name") : stem_of(out_.path);
    out_.about = file_.get_string("about");
    out_.set = file_.get_strings("set");
    out_.objective_set = file_.get_strings("objective_set");
    out_.cluster_set = file_.get_strings("cluster_set");
    read_files();
    read_grid();
    out_.at_workers = read_at_workers(file_);
    read_length();
    read_strategies();
    read_tuning();
    read_judgement();
  }

 private:
  void error(const std::string& field, const std::string& message) {
    diagnostics_.error(file_.where(field), message);
  }

  // The file that a field names, or "" when it is not there (reported).
  std::string existing(const ParamNode& node) {
    std::string path = resolve_path(node.text, node.where);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) return path;
    diagnostics_.error(node.value_where, fmt::format("{}: {}: no such file", node.name,
                                                     describe_path(node.text, node.where)));
    return "";
  }
  std::string file_named(const char* field) {
    const ParamNode* node = file_.node()->find(field);
    return node == nullptr ? "" : existing(*node);
  }

  void read_files() {
    out_.solver = file_named("solver");
    out_.objective = file_named("objective");
    if (!file_.has("solver") && !file_.has("objective")) {
      error("solver", "nothing to train\nhint: solver: \"solver.prototxt\", or objective: \"...\"");
    }
    for (const ParamNode* node : file_.node()->find_all("cluster")) {
      out_.clusters.push_back(existing(*node));
    }
    if (out_.clusters.empty()) {
      error("cluster", "no cluster\nhint: cluster: \"models/clusters/....prototxt\", any number");
    }
    std::vector<std::string> stems;
    for (const std::string& path : out_.clusters) stems.push_back(stem_of(path));
    if (const std::string twice = first_twice(stems); !twice.empty()) {
      error("cluster", fmt::format("two clusters are called '{}'; tables could not tell them apart"
                                   "\nhint: rename one of the files",
                                   twice));
    }
    out_.tune_cluster = file_named("tune_cluster");
  }

  std::vector<uint64_t> read_seeds(const char* field) {
    std::vector<uint64_t> seeds;
    for (const int64_t seed : file_.get_ints(field)) {
      if (seed < 0) error(field, fmt::format("{}: {} is negative", field, seed));
      seeds.push_back(static_cast<uint64_t>(seed));
    }
    if (const std::string twice = first_twice(seeds); !twice.empty()) {
      error(field, fmt::format("{} {} is given twice", field, twice));
    }
    return seeds;
  }

  void read_grid() {
    for (const int64_t workers : file_.get_ints("workers")) {
      if (workers < 1) error("workers", "workers: at least 1");
      out_.workers.push_back(static_cast<int>(workers));
    }
    if (out_.workers.empty()) {
      error("workers", "no number of workers\nhint: workers: 16, or workers: [16, 32]");
    }
    if (const std::string twice = first_twice(out_.workers); !twice.empty()) {
      error("workers", fmt::format("workers: {} is given twice", twice));
    }
    out_.seeds = read_seeds("seed");
    out_.tune_seeds = read_seeds("tune_seed");
    if (out_.seeds.empty()) {
      error("seed", "no seed\nhint: seed: [11, 12, 13, 14, 15]; several show the spread");
    }
    for (const uint64_t seed : out_.tune_seeds) {
      if (std::count(out_.seeds.begin(), out_.seeds.end(), seed) == 0) continue;
      error("tune_seed",
            fmt::format("{} is both a tune_seed and a seed: what is chosen on a seed is "
                        "flattered by it\nhint: use other seeds for one of them",
                        seed));
    }
  }

  void read_length() {
    out_.epochs = file_.get_double("epochs");
    out_.max_iter = file_.get_int("max_iter");
    out_.max_seconds = file_.get_double("max_seconds");
    out_.tests = file_.get_int("tests");
    const bool by_epochs = file_.has("epochs"), by_iterations = file_.has("max_iter");
    if (by_epochs == by_iterations) {
      error("epochs", by_epochs ? "give the length in epochs or in max_iter, not in both"
                                : "how long is a run?\nhint: epochs: 5, or max_iter: 1000");
    } else if (by_epochs ? !(out_.epochs > 0) : out_.max_iter < 1) {
      error(by_epochs ? "epochs" : "max_iter", "a run has to have a length above 0");
    }
    if (out_.max_seconds < 0) error("max_seconds", "max_seconds: 0 (no limit) or more");
  }

  std::vector<WorkersSet> read_at_workers(const Params& params);
  void read_strategies();
  void read_rates(const Params& params, Strategy& strategy);
  void read_tuning();
  void read_judgement();
  int strategy_named(const char* field);

  const Params file_;
  Experiment& out_;
  Diagnostics& diagnostics_;
};

std::vector<WorkersSet> Reader::read_at_workers(const Params& params) {
  std::vector<WorkersSet> out;
  for (const Params& at : params.messages("at_workers")) {
    out.push_back({at.get_int32("workers"), at.get_strings("set")});
    if (std::count(out_.workers.begin(), out_.workers.end(), out.back().workers) > 0) continue;
    diagnostics_.error(at.where(), fmt::format("at_workers: no run has {} workers\nhint: workers: "
                                               "one of those of the experiment",
                                               out.back().workers));
  }
  return out;
}

void Reader::read_strategies() {
  std::vector<std::string> names;
  for (const Params& params : file_.messages("strategy")) {
    Strategy strategy;
    strategy.name = params.get_string("name");
    strategy.about = params.get_string("about");
    strategy.set = params.get_strings("set");
    strategy.at_workers = read_at_workers(params);
    strategy.where = params.where();
    if (const ParamNode* sync = params.message("sync_param").node()) strategy.sync_param = *sync;
    if (strategy.name.empty()) {
      diagnostics_.error(strategy.where, "a strategy without a name\nhint: name: \"bsp\"");
    }
    names.push_back(strategy.name);
    read_rates(params, strategy);
    out_.strategies.push_back(std::move(strategy));
  }
  if (names.empty()) {
    error(
        "strategy",
        "no strategy\nhint: strategy { name: \"asp\" sync_param { model: \"asp\" } }, any number");
  }
  if (const std::string twice = first_twice(names); !twice.empty()) {
    error("strategy", fmt::format("two strategies are called '{}'", twice));
  }
}

// A strategy's own rates win over those of the experiment. Factors stay negative until the solver
// file, and so base_lr, is known.
void Reader::read_rates(const Params& params, Strategy& strategy) {
  const bool own = params.has("rate") || params.has("rate_factor");
  const Params& from = own ? params : file_;
  strategy.rates = doubles(from, "rate");
  const std::vector<double> factors = doubles(from, "rate_factor");
  const std::string field = from.has("rate") ? "rate" : "rate_factor";
  if (!strategy.rates.empty() && !factors.empty()) {
    diagnostics_.error(from.where("rate_factor"), "give rate or rate_factor, not both");
  }
  const std::vector<double>& given = strategy.rates.empty() ? factors : strategy.rates;
  if (std::any_of(given.begin(), given.end(), [](double value) { return !(value > 0); })) {
    diagnostics_.error(from.where(field), field + ": above 0");
  }
  for (const double factor : factors) strategy.rates.push_back(-factor);
}

void Reader::read_tuning() {
  const Params halving = file_.message("halving");
  out_.halving.keep = halving.get_double("keep");
  out_.halving.rungs = halving.get_int32("rungs");
  if (!(out_.halving.keep > 0 && out_.halving.keep < 1)) {
    diagnostics_.error(halving.where("keep"), "keep: a part of the rates, between 0 and 1");
  }
  if (out_.halving.rungs < 1 || out_.halving.rungs > 10) {
    diagnostics_.error(halving.where("rungs"), "rungs: 1 to 10");
  }
  out_.tune_by = file_.get_enum("tune_by") == "TIME" ? TuneBy::kTime : TuneBy::kFinal;
  for (const Strategy& strategy : out_.strategies) {
    if (strategy.rates.size() < 2 || !out_.tune_seeds.empty()) continue;
    diagnostics_.error(strategy.where,
                       fmt::format("strategy '{}' has {} rates to choose from, but there is no "
                                   "tune_seed to choose on\nhint: tune_seed: [1, 2, 3]",
                                   strategy.name, strategy.rates.size()));
    return;
  }
}

int Reader::strategy_named(const char* field) {
  const std::string wanted = file_.get_string(field);
  std::vector<std::string> names;
  for (const Strategy& strategy : out_.strategies) names.push_back(strategy.name);
  const auto it = std::find(names.begin(), names.end(), wanted);
  if (it != names.end()) return static_cast<int>(it - names.begin());
  error(field, fmt::format("{}: no strategy is called '{}'{}", field, wanted,
                           did_you_mean(wanted, names)));
  return 0;
}

void Reader::read_judgement() {
  const std::string measure = file_.get_enum("measure");
  const bool loss = measure == "LOSS" || (measure == "AUTO" && !out_.objective.empty());
  out_.measure = loss ? Measure::kLoss : Measure::kAccuracy;
  out_.final_tests = file_.get_int32("final_tests");
  if (out_.final_tests < 1) error("final_tests", "final_tests: at least 1");
  out_.targets = doubles(file_, "target");
  for (const double target : out_.targets) {
    if (loss || (target > 0 && target <= 1)) continue;
    error("target", fmt::format("target {}: an accuracy lies between 0 and 1", target));
  }
  out_.margin = file_.get_double("margin");
  if (out_.margin < 0) error("margin", "margin: 0 or more");
  if (file_.has("target_from")) out_.target_from = strategy_named("target_from");
  if (file_.has("baseline")) out_.baseline = strategy_named("baseline");
  if (file_.has("candidate")) out_.candidate = strategy_named("candidate");
  if (out_.tune_by == TuneBy::kTime && out_.targets.empty() && out_.target_from < 0) {
    error("tune_by", "tune_by: TIME needs a target\nhint: target: 0.85, or target_from: \"bsp\"");
  }
  for (const Params& published : file_.messages("published")) {
    out_.published.push_back({published.get_string("text"), published.get_string("why")});
    if (published.has("text")) continue;
    diagnostics_.error(published.where(), "a published figure without a text");
  }
}

}  // namespace

std::string stem_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

Experiment Experiment::load(const std::string& path) { return parse(read_file(path), path); }

Experiment Experiment::parse(const std::string& text, const std::string& path) {
  Experiment out;
  out.path = path;
  Diagnostics diagnostics;
  const ParamNode root = parse_prototxt(text, path, diagnostics);
  validate(root, fields(), "experiment", diagnostics);
  diagnostics.throw_if_any();
  Reader(Params(&root, &fields()), out, diagnostics).read();
  diagnostics.throw_if_any();
  out.solver_root_ = read_solver_root(out);
  settle_rates(out);
  check_strategies(out);
  return out;
}

}  // namespace kinet
