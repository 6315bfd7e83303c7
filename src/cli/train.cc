// kinet train: runs a solver file.
//
// Order: flags and solver file are checked; the run directory is made; the solver opens data,
// weights or the state to go on from; the effective files are saved; the loop runs under signal
// handlers. What the loop does is told to observers: the log, and the run directory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/command.h"
#include "src/cli/console.h"
#include "src/cli/gpu_flag.h"
#include "src/cli/launch_flags.h"
#include "src/cli/net_summary.h"
#include "src/cli/options.h"
#include "src/cli/rank_session.h"
#include "src/cli/run_fingerprint.h"
#include "src/cli/signals.h"
#include "src/cli/slow_flag.h"
#include "src/cli/sync_roles.h"
#include "src/cli/train_parts.h"
#include "src/solver/effective_files.h"
#include "src/solver/observer_list.h"
#include "src/solver/run_directory.h"
#include "src/solver/solver.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

constexpr double kSuccessorTimeout = 60;  // seconds that a started process may take to join

class Train : public Command {
 public:
  static CommandType describe() {
    return {"train", "train a net as a solver file says",
            "kinet train models/lenet/solver.prototxt --set max_iter=200"};
  }

  void configure(CLI::App& app) override {
    app.add_option("SOLVER", solver_, "solver file (.prototxt)")->required();
    add_weights_flag(app, options_.weights);
    app.add_option("--resume,--snapshot", options_.resume, "go on from this .solverstate");
    app.add_option("--out", out_, "run directory [runs/<name>-<date>-<time>]");
    app.add_option("--set", options_.set, "a solver field that wins over the file: base_lr=0.02")
        ->allow_extra_args(false);
    add_threads_flag(app, threads_);
    app.add_option("--seed", seed_, "seed of all random numbers; wins over random_seed");
    add_gpu_flag(app, gpu_);
    add_launch_flags(app, launch_);
    add_sync_flag(app, sync_);
    add_replay_flag(app, options_.replay);
    add_slow_flag(app, slow_);
    app.add_flag("--quiet", quiet_, "print only warnings and the end");
  }

  int run() override {
    std::signal(SIGPIPE, SIG_IGN);  // whoever reads the lines may go away; the run goes on
    require_solver_file(solver_, "train");
    if (!options_.resume.empty()) require_file(options_.resume, "--resume");
    KINET_CHECK(
        options_.resume.empty() || options_.weights.empty(),
        "--resume and --weights exclude each other\nhint: a .solverstate brings its weights; "
        "--weights begins at iteration 0 with weights that are there");
    if (!seed_.empty()) options_.seed = seed_of(seed_);
    const RankIdentity me = resolve_launch(launch_);
    apply_sync_flag(sync_, options_);
    const auto config = SolverConfig::load(solver_, options_.set);
    const Params fields = config->params();
    gpu_choice_ = read_gpu_choice(gpu_, &fields);
    check_gpu_choice(gpu_choice_);  // also where ranks are only started from here
    if (me.role == Role::kLauncher) {
      roles_ = roles_of_workers(*config, me.size);
      slow_.check(roles_.workers);
      check_replay(roles_, options_);
      return run_launcher(launch_, roles_.ranks(), roles_.servers);
    }
    if (me.role == Role::kRank) return train_as_rank(me, config);
    slow_.check(1);
    options_.threads = resolve_threads(threads_);
    check_replay(roles_, options_);
    take_gpu(0);
    return train(config, nullptr);
  }

 private:
  void take_gpu(int worker) {
    OpenedGpu opened = open_gpu(gpu_choice_, worker);
    options_.device = std::move(opened.device);
    gpu_note_ = std::move(opened.note);
  }

  int train_as_rank(const RankIdentity& me, const std::shared_ptr<const SolverConfig>& config) {
    RankSession session(join_as_rank(me, run_fingerprint(*config, options_)),
                        [this](const std::string& text) {
                          if (launch_.verbose) std::fprintf(stderr, "%s\n", text.c_str());
                        });
    roles_ = roles_of_ranks(*config, session.world().size);
    const int asked = launch_.settings.workers;
    KINET_CHECK(asked == 0 || asked == roles_.workers,
                "--workers {}: this run has {} ranks, {} of them servers\nhint: unset KINET_RANK",
                asked, session.world().size, roles_.servers);
    slow_.check(roles_.workers);
    assign_role(roles_, session.world().rank, slow_, options_);
    const int worker = worker_on_node(session.world(), roles_.servers);
    options_.threads = resolve_threads(threads_, me, session.world(), roles_.servers);
    if (launch_.restarts > 0) options_.successor_timeout = kSuccessorTimeout;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    options_.clock_seed = static_cast<uint64_t>(now / std::chrono::microseconds(1) % 1'000'000'000);
    if (options_.server >= 0) check_replay(roles_, options_);
    options_.clock_seed = std::stoull(session.share("seed", std::to_string(*options_.clock_seed)));
    try {
      if (options_.server < 0) {
        take_gpu(worker);
      } else {
        gpu_note_ = workers_gpu_note(gpu_choice_);
      }
      return session.leader() ? train(config, &session) : work(config, session);
    } catch (const Error& error) {
      session.abort(error);
      throw;
    }
  }

  // A worker that is not the first: it computes; what there is to see, the first one shows.
  int work(const std::shared_ptr<const SolverConfig>& config, RankSession& session) {
    WorkerLog log;
    options_.output_folder = session.share("run folder", "");
    Solver solver(config, options_, log);
    session.connect(config->params().message("comm_param"), launch_.transport, solver);
    SolverControl control;
    const TrainingSignals signals(control);
    solver.run(control);
    session.leave();
    return signals.stopped_by() == 0 ? 0 : 128 + signals.stopped_by();
  }

  // `session`: of the workers that train together, or null.
  int train(const std::shared_ptr<const SolverConfig>& config, RankSession* session) {
    // mpirun gives every rank a terminal of its own making; a live line is no use there.
    Console console = session != nullptr ? Console(Console::Mode::kLog) : Console();
    const ParamNode* name = config->train_net().find("name");
    const fs::path folder =
        out_.empty() ? make_run_folder(solver_, name != nullptr ? name->text : "") : fs::path(out_);
    refuse_used_folder(folder, options_.resume);
    FolderGuard guard(folder);
    if (session != nullptr) session->share("run folder", fs::absolute(folder).string());
    RunDirectory directory(folder, [&console](const std::string& text) { console.warning(text); });
    const std::unique_ptr<SolverObserver> log = make_train_log(console, quiet_);
    ObserverList observers;
    observers.add(log.get());
    observers.add(&directory);

    options_.output_folder = folder.string();
    Solver solver(config, options_, observers);
    if (session != nullptr) {
      session->connect(config->params().message("comm_param"), launch_.transport, solver);
    }
    guard.keep();
    save_files(*config, solver, directory);
    if (!quiet_) print_head(console, solver, directory);
    if (!gpu_note_.empty()) console.line("Device: " + gpu_note_);
    if (session == nullptr && config->params().has("sync_param") &&
        config->params().message("sync_param").get_string("model") != "bsp") {
      console.warning("a single process has nobody to wait for: sync_param is not used");
    }
    if (!quiet_ && session != nullptr) print_session(console, *config, *session);
    return drive(solver, directory, console, session);
  }

  int drive(Solver& solver, RunDirectory& directory, Console& console, RankSession* session) {
    SolverControl control;
    const TrainingSignals signals(control);
    try {
      const FinishRecord end = solver.run(control);
      if (session != nullptr) session->leave();
      if (!quiet_) print_foot(console, end, directory);
      // Another rank was told to stop: for a script this run is not complete either.
      if (roles_.servers > 0 && end.reason == "interrupted" && signals.stopped_by() == 0) {
        return 128 + SIGTERM;
      }
    } catch (const Error& error) {  // kept with the run; main() prints it
      console.clear_live();
      directory.on_failure(solver.iteration(), error.what());
      throw;
    }
    return signals.stopped_by() == 0 ? 0 : 128 + signals.stopped_by();
  }

  void save_files(const SolverConfig& config, const Solver& solver, RunDirectory& directory) const {
    RunSettings settings;
    settings.seed = solver.seed();
    settings.weights = solver.weights();
    settings.comment =
        fmt::format("The solver file as it was used, by {}\ncommand: {}\nseed {}, {} threads\n",
                    build_info_line(), command_line(), solver.seed(), options_.threads);
    for (const auto& [name, text] : effective_files(config, settings)) directory.save(name, text);
  }

  // The command as it was given, for a shell.
  std::string command_line() const {
    std::string out = "kinet train " + shell_word(solver_);
    add_flag("--weights", join(options_.weights, ","), out);
    add_flag("--resume", options_.resume, out);
    add_flag("--out", out_, out);
    add_common_flags(out);
    add_flag("--seed", seed_, out);
    return out;
  }

  std::string resume_command(const std::string& state, const fs::path& folder) const {
    std::string out = "kinet train " + shell_word(solver_);
    add_flag("--resume", state, out);
    add_flag("--out", folder.string(), out);
    add_common_flags(out);
    return out;
  }

  void add_common_flags(std::string& out) const {
    for (const std::string& assignment : options_.set) add_flag("--set", assignment, out);
    if (threads_ > 0) add_flag("--threads", std::to_string(threads_), out);
    out += launch_flags_text(launch_);
    add_flag("--gpu", gpu_, out);
    add_flag("--slow", slow_.text, out);
    add_flag("--replay", options_.replay, out);
    // --sync is among the --set ones by now
  }

  static void print_head(Console& console, Solver& solver, const RunDirectory& directory) {
    console.paragraph(build_info_line());
    console.paragraph(net_line(solver.train_net()));
    console.line("Run directory: " + directory.folder().string());
  }

  void print_session(Console& console, const SolverConfig& config,
                     const RankSession& session) const {
    console.line(fmt::format("Workers: {}; {}", session.summary(roles_.servers),
                             describe_sync(config, roles_)));
    if (launch_.verbose) console.line(session.describe_routes(true));
  }

  void print_foot(Console& console, const FinishRecord& end, const RunDirectory& directory) const {
    if (!end.last_snapshot.empty()) console.line("Last snapshot: " + end.last_snapshot);
    if (!end.last_snapshot.empty() && end.reason == "interrupted") {
      console.line("Go on with: " + resume_command(end.last_snapshot, directory.folder()));
    }
    console.line("Report: " + (directory.folder() / "report.html").string());
  }

  std::string solver_, out_, gpu_, seed_;
  SolverOptions options_;
  LaunchFlags launch_;
  SlowFlag slow_;
  GpuChoice gpu_choice_;
  std::string sync_, gpu_note_;
  SyncRoles roles_;
  int threads_ = 0;
  bool quiet_ = false;
};
KINET_REGISTER_COMMAND(Train);

}  // namespace
}  // namespace kinet
