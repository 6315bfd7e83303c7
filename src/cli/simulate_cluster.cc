#include "src/cli/simulate_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/cli/gpu_flag.h"
#include "src/cli/signals.h"
#include "src/cli/train_parts.h"
#include "src/sim/calibrate.h"
#include "src/sim/net_problem.h"
#include "src/sim/quadratic_problem.h"
#include "src/sim/run_length.h"
#include "src/sim/virtual_cluster.h"
#include "src/solver/effective_files.h"
#include "src/solver/observer_list.h"
#include "src/solver/run_directory.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

uint64_t choose_seed(const ClusterCommand& command, const SolverConfig& config) {
  if (!command.seed.empty()) return seed_of(command.seed);
  const int64_t in_file = config.params().get_int("random_seed");
  if (in_file >= 0) return static_cast<uint64_t>(in_file);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(now / std::chrono::microseconds(1)) % 1'000'000'000;
}

std::unique_ptr<Problem> make_problem(const ClusterCommand& command, const VirtualSpec& spec) {
  if (!command.objective.empty()) return load_objective(command.objective, spec.seed);
  NetProblemOptions options;
  options.seed = spec.seed;
  options.workers = spec.workers;
  options.lanes = spec.lanes;
  options.weights = command.weights;
  return std::make_unique<NetProblem>(spec.config, options);
}

// What a reader of the log wants to know beside its lines.
void print_sums(Console& console, const VirtualResult& r, int workers) {
  const double busy = r.seconds > 0 ? r.server_seconds / r.seconds : 0;
  const double each = std::max(1e-300, r.seconds * workers);
  console.line(
      fmt::format("Virtual time: {:.6g} s; {} updates of {} pushes ({} dropped), {} samples",
                  r.seconds, r.rounds, r.pushes, r.dropped, with_commas(r.samples)));
  console.line(fmt::format(
      "Workers computed {:.1f} % of the time and waited {:.1f} %; servers were busy {:.1f} %; "
      "{} up, {} down",
      100 * r.compute_seconds / each, 100 * r.waiting_seconds / each, 100 * busy,
      human_bytes(static_cast<uint64_t>(r.bytes_up)),
      human_bytes(static_cast<uint64_t>(r.bytes_down))));
  console.line(fmt::format("Mean k {:.3g}, lag {:.3g} (at most {:g}), gap {:.3g}", r.mean_k,
                           r.mean_lag, r.max_lag, r.mean_gap));
}

}  // namespace

int simulate_cluster(const ClusterCommand& command) {
  VirtualSpec spec;
  spec.config = SolverConfig::load(command.solver, command.set);
  note_cpu_only(spec.config->params(), "simulate");
  spec.workers = command.workers;
  spec.seed = choose_seed(command, *spec.config);
  spec.lanes = command.lanes > 0
                   ? command.lanes
                   : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  spec.cluster = ClusterProfile::load(command.cluster, spec.seed, command.cluster_set);
  const std::unique_ptr<Problem> problem = make_problem(command, spec);
  spec.end = run_length(spec.config->params(), *problem, spec.workers);
  SolverControl control;
  const TrainingSignals signals(control);
  spec.stop = &control.stop;

  Console console(Console::Mode::kLog);
  const ParamNode* name = spec.config->train_net().find("name");
  const fs::path folder = command.out.empty()
                              ? make_run_folder(command.solver, name != nullptr ? name->text : "")
                              : fs::path(command.out);
  refuse_used_folder(folder, "");
  RunDirectory directory(folder, [&console](const std::string& text) { console.warning(text); });
  const std::unique_ptr<SolverObserver> log = make_train_log(console, command.quiet);
  ObserverList observers;
  observers.add(log.get());
  observers.add(&directory);
  RunSettings settings;
  settings.seed = spec.seed;
  settings.weights = command.weights;
  settings.comment = fmt::format("The solver file as it was used, by {}\ncommand: {}\nseed {}\n",
                                 build_info_line(), command.command_line, spec.seed);
  for (const auto& [file, text] : effective_files(*spec.config, settings))
    directory.save(file, text);
  directory.save("cluster.prototxt", read_file(command.cluster));
  if (!command.quiet) {
    console.paragraph(build_info_line());
    console.line(problem->describe());
    console.line("Run directory: " + directory.folder().string());
    console.line(fmt::format("Virtual cluster: {} workers, {}. All times are modelled.",
                             spec.workers, spec.cluster.describe()));
  }
  const auto begin = std::chrono::steady_clock::now();
  const VirtualResult result = run_virtual(*problem, spec, &observers);
  const std::chrono::duration<double> real = std::chrono::steady_clock::now() - begin;
  if (!command.quiet) {
    print_sums(console, result, spec.workers);
    console.line("Real time: " + human_seconds(real.count()));
    console.line("Report: " + (directory.folder() / "report.html").string());
  }
  if (result.diverged) {
    directory.on_failure(static_cast<int64_t>(result.iteration), result.reason);
    fail_runtime(
        "iteration {:g}: {}; nothing is saved\nhint: lower base_lr, warm up with "
        "warmup_iter, or limit the gradient with clip_gradients",
        result.iteration, result.reason);
  }
  return signals.stopped_by() == 0 ? 0 : 128 + signals.stopped_by();
}

int print_calibration(const std::string& run_dir, const std::string& out) {
  const std::string text = calibrate(run_dir);
  if (out.empty()) {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  write_file_atomic(out, text);
  std::printf("Profile: %s\n", out.c_str());
  return 0;
}

}  // namespace kinet
