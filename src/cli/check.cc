// kinet check: a dry run. Everything that training would do before its first iteration, and what a
// user wants to know beforehand: shapes, parameters, memory, work, data, labels, epochs.
//
// Every part is tried even when one before it failed, and all errors come together at the end.
#include "src/base/check.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "src/base/files.h"
#include "src/base/text.h"
#include "src/cli/command.h"
#include "src/cli/net_summary.h"
#include "src/cli/options.h"
#include "src/cli/shape_flag.h"
#include "src/solver/run_directory.h"
#include "src/solver/solver.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

// Runs parts and keeps what they throw.
class ErrorList {
 public:
  void attempt(const std::function<void()>& part) {
    try {
      part();
    } catch (const Error& error) {
      // The nets of one file may fail in the same way; once is enough.
      if (std::find(errors_.begin(), errors_.end(), error.what()) == errors_.end()) {
        errors_.emplace_back(error.what());
      }
    }
  }
  void throw_if_any() {
    for (size_t i = 0; i < errors_.size(); ++i) {
      const size_t hint = hint_begin(errors_[i]);
      const bool again = std::any_of(errors_.begin() + i + 1, errors_.end(), [&](auto& later) {
        return later.substr(hint_begin(later)) == errors_[i].substr(hint);
      });
      if (again) errors_[i].resize(hint);  // the last of its kind keeps it
    }
    if (!errors_.empty()) throw Error(join(errors_, "\n"));
  }

 private:
  static size_t hint_begin(const std::string& error) {
    return std::min(error.find("\nhint: "), error.size());
  }

  std::vector<std::string> errors_;
};

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fputs("\n", stdout);
}

class Check : public Command {
 public:
  static CommandType describe() {
    return {"check", "a dry run: shapes, parameters, memory, data, labels, snapshot folder",
            "kinet check models/lenet/solver.prototxt"};
  }

  void configure(CLI::App& app) override {
    app.add_option("FILE", file_, "solver or net file (.prototxt)")->required();
    app.add_option("--set", set_, "a solver field that wins over the file: base_lr=0.02")
        ->allow_extra_args(false);
    add_shape_flag(app, shape_, "channels,height,width: look at the nets without their data");
    add_threads_flag(app, threads_);
  }

  int run() override {
    require_file(file_, "check");
    if (is_solver_file(file_)) {
      check_solver_file();
    } else {
      check_net_file();
    }
    errors_.throw_if_any();
    print("No errors.");
    return 0;
  }

 private:
  void check_net_file() {
    std::vector<std::string> notes;
    const ParamNode root = load_net_file(file_, &notes);
    for (const std::string& note : notes) print("note: " + note);
    for (const Phase phase : {Phase::kTrain, Phase::kTest}) {
      NetState state;
      state.phase = phase;
      check_net(root, merge_state(root, state), phase == Phase::kTrain ? "Train net" : "Test net");
    }
  }

  void check_solver_file() {
    const auto config = SolverConfig::load(file_, set_);
    const Params solver = config->params();
    print(fmt::format("Solver: {}, learning rate {} with policy {}", solver.get_string("type"),
                      solver.get_float("base_lr"), solver.get_enum("lr_policy")));
    for (const std::string& note : config->notes()) print("note: " + note);
    if (const auto net = check_net(config->train_net(), config->train_state(), "Train net")) {
      print_epochs(*net, solver);
    }
    for (int i = 0; i < config->test_net_count(); ++i) {
      const std::string title = fmt::format("Test net #{}", i);
      const auto net = check_net(config->test_net(i), config->test_state(i), title);
      if (net) print_coverage(*net, solver, i);
    }
    errors_.attempt([&] { check_snapshot_folder(*config); });
  }

  // Prints the table and looks at the data; null when the net cannot be built.
  std::unique_ptr<Net> check_net(const ParamNode& root, const NetState& state,
                                 const std::string& title) {
    std::unique_ptr<Net> net;
    errors_.attempt([&] {
      NetOptions options;
      options.state = state;
      options.threads = resolve_threads(threads_);
      net = std::make_unique<Net>(shape_.empty() ? root : with_dummy_data(root, shape_), options);
      print(fmt::format("\n{} '{}' (phase {})\n", title, net->name(), phase_name(state.phase)));
      print(layer_table(*net));
      for (const std::string& note : net->notes()) print("note: " + note);
    });
    if (!net) return nullptr;
    errors_.attempt([&] { print(read_first_batch(*net, options_threads())); });
    for (const LabelUse& use : find_label_uses(*net)) {
      errors_.attempt([&] { print(check_labels_of(use)); });
    }
    return net;
  }

  int options_threads() const { return resolve_threads(threads_); }

  static void print_epochs(const Net& net, const Params& solver) {
    const int64_t iter_size = solver.get_int("iter_size");
    for (const BatchSource* source : net.batch_sources()) {
      const int64_t batch = source->batch_size() * iter_size;
      const double per_epoch = static_cast<double>(source->items()) / static_cast<double>(batch);
      std::string line = fmt::format(
          "Batch {} x iter_size {} = {} items an iteration; {:.6g} "
          "iterations an epoch",
          source->batch_size(), iter_size, batch, per_epoch);
      if (solver.has("max_iter")) {
        const auto max_iter = static_cast<double>(solver.get_int("max_iter"));
        line += fmt::format("; max_iter {} = {:.4g} epochs", max_iter, max_iter / per_epoch);
      }
      print(line);
    }
  }

  static void print_coverage(const Net& net, const Params& solver, int index) {
    const std::vector<int64_t> test_iter = solver.get_ints("test_iter");
    for (const BatchSource* source : net.batch_sources()) {
      if (test_iter.empty()) {
        print(
            fmt::format("A test scores each of the {} items once.", with_commas(source->items())));
        continue;
      }
      const int64_t scored = test_iter.at(index) * source->batch_size();
      print(
          fmt::format("A test scores {} items (test_iter {} x batch {}), {:.4g} % of the {} items.",
                      with_commas(scored), test_iter.at(index), source->batch_size(),
                      100.0 * static_cast<double>(scored) / static_cast<double>(source->items()),
                      with_commas(source->items())));
    }
  }

  // A relative prefix goes below the run directory, which `train` makes; an absolute one must have
  // its folder.
  void check_snapshot_folder(const SolverConfig& config) const {
    const Params solver = config.params();
    const std::string stem = fs::path(file_).stem().string();
    fs::path prefix = solver.has("snapshot_prefix") ? solver.get_string("snapshot_prefix") : stem;
    std::error_code error;
    if (!prefix.has_filename() || fs::is_directory(prefix, error)) prefix /= stem;
    if (prefix.is_absolute()) {
      check_writable(prefix.parent_path(), false);
      return print(fmt::format("Snapshots: {}_iter_N.caffemodel", prefix.string()));
    }
    check_writable(fs::current_path(), false);
    const ParamNode* net = config.train_net().find("name");
    print(fmt::format(
        "Snapshots: {}_iter_N.caffemodel; with --out FOLDER: FOLDER/{}_iter_N.caffemodel",
        (fs::path("runs") / (run_name(file_, net != nullptr ? net->text : "") + "-<date>-<time>") /
         prefix)
            .string(),
        prefix.string()));
  }

  std::string file_;
  std::vector<std::string> set_;
  std::vector<int64_t> shape_;
  int threads_ = 0;
  ErrorList errors_;
};
KINET_REGISTER_COMMAND(Check);

}  // namespace
}  // namespace kinet
