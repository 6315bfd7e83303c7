// kinet simulate: the training of `kinet train --workers N` in virtual time.
//
// Every rank is a thread of this process over transport sim: gradients, sums and weights are real,
// how long things take is modelled (src/sync/step_clock for gradients, comm/link_model for bytes).
// All times that are shown or recorded are virtual. The same seed gives the same bits at the same
// times, whatever this machine does besides: virtual time moves only while every rank waits.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/comm_fields.h"
#include "comm/local_rendezvous.h"
#include "comm/transports/sim.h"
#include "src/base/build_info.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/cli/command.h"
#include "src/cli/console.h"
#include "src/cli/gpu_flag.h"
#include "src/cli/net_summary.h"
#include "src/cli/options.h"
#include "src/cli/rank_session.h"
#include "src/cli/signals.h"
#include "src/cli/simulate_cluster.h"
#include "src/cli/slow_flag.h"
#include "src/cli/sync_roles.h"
#include "src/cli/train_parts.h"
#include "src/solver/effective_files.h"
#include "src/solver/observer_list.h"
#include "src/solver/run_directory.h"
#include "src/solver/solver.h"
#include "src/sync/step_clock.h"

namespace kinet {
namespace {

namespace fs = std::filesystem;

constexpr int kMostWorkers = 1024, kMostVirtual = 65536;
constexpr double kPatience = 3600;  // real seconds that ranks wait for one that computes

// What the threads share.
struct Simulation {
  std::shared_ptr<const SolverConfig> config;
  std::shared_ptr<LocalStore> store;
  Runtime runtime;
  SyncRoles roles;
  SolverControl control;  // of all: a wish to stop reaches every rank
  uint64_t seed = 0;      // of the modelled times
  uint64_t clock_seed = 0;
  std::mutex mutex;
  std::exception_ptr failure;  // the first; the others follow from it

  // Of a run with servers a worker's end is not that of the run, as with `kinet train`.
  void note_failure(Rank rank, const char* what) {
    const std::lock_guard lock(mutex);
    if (roles.servers > 0 && rank >= roles.servers) {
      std::fprintf(stderr, "[rank %d] kinet: %s\n", rank, what);
    } else if (!failure) {
      failure = std::current_exception();
    }
  }
};

class Simulate : public Command {
 public:
  static CommandType describe() {
    return {"simulate", "train in virtual time: real gradients, modelled time",
            "kinet simulate models/lenet/solver.prototxt --workers 4 --set max_iter=100\n"
            "  kinet simulate models/lenet/solver.prototxt --workers 16 --sync momentum_k_sync "
            "--cluster models/clusters/fdr_gpu.prototxt"};
  }

  void configure(CLI::App& app) override {
    app.add_option("SOLVER", solver_, "solver file (.prototxt)");
    app.add_option("--workers", workers_,
                   "workers: each a thread of this process, or with --cluster of a virtual cluster")
        ->check(CLI::Range(1, kMostVirtual));
    app.add_option("--cluster", cluster_.cluster,
                   "train on this virtual cluster (models/clusters/*.prototxt): same models and "
                   "arithmetic, no communicator; thousands of workers");
    app.add_option("--cluster-set", cluster_.cluster_set,
                   "a field of the profile that wins over the file: compute.mean=0.1")
        ->allow_extra_args(false);
    app.add_option("--objective", cluster_.objective,
                   "with --cluster: a function to train in place of the solver file's nets");
    app.add_option("--lanes", cluster_.lanes,
                   "with --cluster: threads that compute gradients; changes no bit [all cores]")
        ->check(CLI::Range(1, 1024));
    app.add_option("--calibrate", calibrate_,
                   "print a cluster profile made from this run folder, and train nothing");
    app.add_option("--step-seconds", step_given_,
                   "virtual seconds that a gradient takes on average [0.01]");
    app.add_option("--clock", clock_,
                   "how these vary: " + join(StepClock::names(), ", ") + " [constant]");
    add_sync_flag(app, sync_);
    add_replay_flag(app, options_.replay);
    add_slow_flag(app, slow_);
    add_weights_flag(app, options_.weights);
    app.add_option("--resume,--snapshot", options_.resume, "go on from this .solverstate");
    app.add_option("--out", out_, "run directory [runs/<name>-<date>-<time>]");
    app.add_option("--set", options_.set, "a solver field that wins over the file: base_lr=0.02")
        ->allow_extra_args(false);
    app.add_option("--threads", options_.threads, "threads of each rank [1]")
        ->check(CLI::Range(1, 1024));
    app.add_option("--seed", seed_, "seed of all random numbers; wins over random_seed");
    app.add_flag("--quiet", quiet_, "print only warnings and the end");
  }

  int run() override {
    std::signal(SIGPIPE, SIG_IGN);
    if (!calibrate_.empty()) return print_calibration(calibrate_, out_);
    KINET_CHECK(!solver_.empty(), "SOLVER is required\nhint: kinet simulate --help");
    require_solver_file(solver_, "simulate");
    KINET_CHECK(workers_ > 0, "--workers is required");
    if (!cluster_.cluster.empty()) return run_cluster();
    KINET_CHECK(cluster_.objective.empty() && cluster_.cluster_set.empty() && cluster_.lanes == 0,
                "--objective, --cluster-set and --lanes belong to --cluster");
    KINET_CHECK(workers_ >= 2 && workers_ <= kMostWorkers,
                "--workers {}: without --cluster it must lie between 2 and {}", workers_,
                kMostWorkers);
    if (clock_.empty()) clock_ = "constant";
    step_seconds_ = step_given_.value_or(0.01);
    if (!options_.resume.empty()) require_file(options_.resume, "--resume");
    KINET_CHECK(std::isfinite(step_seconds_) && step_seconds_ > 0 && step_seconds_ < 1e6,
                "--step-seconds {:g}: must lie between 0 and 1,000,000", step_seconds_);
    StepClock::kind_of(clock_);
    apply_sync_flag(sync_, options_);
    if (options_.threads <= 0) options_.threads = 1;  // as many as there are cores: other bits
    if (!seed_.empty()) options_.seed = seed_of(seed_);
    Simulation sim;
    prepare(sim);
    const TrainingSignals signals(sim.control);
    const auto begin = std::chrono::steady_clock::now();
    run_ranks(sim);
    const std::chrono::duration<double> real = std::chrono::steady_clock::now() - begin;
    if (!quiet_) std::printf("Real time: %s\n", human_seconds(real.count()).c_str());
    return signals.stopped_by() == 0 ? 0 : 128 + signals.stopped_by();
  }

 private:
  int run_cluster() {
    KINET_CHECK(clock_.empty() && slow_.text.empty() && options_.resume.empty() &&
                    options_.replay.empty() && options_.threads == 0,
                "--clock, --slow, --resume, --replay and --threads do not go with --cluster\nhint: "
                "the profile says how long steps take (--cluster-set compute.clock=GAMMA); --lanes "
                "is the number of threads");
    apply_sync_flag(sync_, options_);
    if (step_given_) {
      cluster_.cluster_set.push_back(fmt::format("compute.mean={}", *step_given_));
    }
    cluster_.solver = solver_;
    cluster_.workers = workers_;
    cluster_.seed = seed_;
    cluster_.out = out_;
    cluster_.set = options_.set;
    cluster_.weights = options_.weights;
    cluster_.quiet = quiet_;
    cluster_.command_line =
        fmt::format("kinet simulate {} --workers {}", shell_word(solver_), workers_);
    add_flag("--cluster", cluster_.cluster, cluster_.command_line);
    add_flag("--objective", cluster_.objective, cluster_.command_line);
    for (const auto& a : cluster_.cluster_set) add_flag("--cluster-set", a, cluster_.command_line);
    for (const auto& a : options_.set) add_flag("--set", a, cluster_.command_line);
    add_flag("--weights", join(options_.weights, ","), cluster_.command_line);
    add_flag("--seed", seed_, cluster_.command_line);
    return simulate_cluster(cluster_);
  }

  void prepare(Simulation& sim) {
    sim.config = SolverConfig::load(solver_, options_.set);
    note_cpu_only(sim.config->params(), "simulate");
    const Params comm(sim.config->params().message("comm_param").node(), &comm_fields());
    SimOptions network = SimOptions::from(comm.message("sim"));
    network.threads = true;
    network.patience = kPatience;
    sim.roles = roles_of_workers(*sim.config, workers_);
    slow_.check(workers_);
    sim.runtime.sim = std::make_shared<SimWorld>(sim.roles.ranks(), network);
    sim.store = std::make_shared<LocalStore>(sim.roles.ranks());
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    options_.clock_seed = static_cast<uint64_t>(now / std::chrono::microseconds(1)) % 1'000'000'000;
    check_replay(sim.roles, options_);
    sim.clock_seed = *options_.clock_seed;
    const int64_t in_file = sim.config->params().get_int("random_seed");
    sim.seed =
        options_.seed.value_or(in_file >= 0 ? static_cast<uint64_t>(in_file) : sim.clock_seed);
  }

  void run_ranks(Simulation& sim) const {
    std::vector<std::thread> threads;
    for (Rank rank = 1; rank < sim.roles.ranks(); ++rank) {
      threads.emplace_back([this, &sim, rank] {
        be_a_rank(sim, rank, [&](RankSession& session) { work(sim, session); });
      });
    }
    be_a_rank(sim, 0, [&](RankSession& session) { lead(sim, session); });
    for (std::thread& thread : threads) thread.join();
    if (sim.failure) std::rethrow_exception(sim.failure);
  }

  // A rank that fails tells the others, so that none waits for it.
  static void be_a_rank(Simulation& sim, Rank rank, const std::function<void(RankSession&)>& body) {
    try {
      JoinRequest request;
      request.rank = rank;
      request.size = sim.store->size();
      request.node = node_id();
      request.host = host_name();
      RankSession session(join_threads(sim.store, request, kJoinTimeout),
                          [](const std::string&) {});
      session.use(sim.runtime);
      try {
        body(session);
      } catch (const std::exception& error) {
        sim.note_failure(rank, error.what());
        session.abort(Error(error.what(), Error::Kind::kRuntime));
      }
    } catch (const std::exception& error) {
      sim.note_failure(rank, error.what());
    }
  }

  SolverOptions options_of(const Simulation& sim, Rank rank, const std::string& folder) const {
    SolverOptions options = options_;
    assign_role(sim.roles, rank, slow_, options);
    options.output_folder = folder;
    options.clock_seed = sim.clock_seed;
    options.now = [world = sim.runtime.sim] { return world->now(); };
    const StepClock clock(StepClock::kind_of(clock_), step_seconds_, sim.seed);
    options.step_seconds = [clock, worker = options.worker, gradient = int64_t{0}]() mutable {
      return clock.seconds(worker, gradient++);
    };
    return options;
  }

  void connect(const Simulation& sim, RankSession& session, Solver& solver) const {
    session.connect(sim.config->params().message("comm_param"), "sim", solver);
  }

  void work(Simulation& sim, RankSession& session) const {
    WorkerLog log;
    const std::string folder = session.share("run folder", "");
    Solver solver(sim.config, options_of(sim, session.world().rank, folder), log);
    connect(sim, session, solver);
    solver.run(sim.control);
    session.leave();
  }

  void lead(Simulation& sim, RankSession& session) const {
    Console console(Console::Mode::kLog);
    const ParamNode* name = sim.config->train_net().find("name");
    const fs::path folder =
        out_.empty() ? make_run_folder(solver_, name != nullptr ? name->text : "") : fs::path(out_);
    refuse_used_folder(folder, options_.resume);
    FolderGuard guard(folder);
    session.share("run folder", fs::absolute(folder).string());
    RunDirectory directory(folder, [&console](const std::string& text) { console.warning(text); });
    const std::unique_ptr<SolverObserver> log = make_train_log(console, quiet_);
    ObserverList observers;
    observers.add(log.get());
    observers.add(&directory);
    Solver solver(sim.config, options_of(sim, 0, folder.string()), observers);
    connect(sim, session, solver);
    guard.keep();
    save_files(*sim.config, solver, directory);
    if (!quiet_) print_head(console, sim, solver, directory);
    try {
      const FinishRecord end = solver.run(sim.control);
      session.leave();
      if (!quiet_) print_foot(console, end, directory);
    } catch (const Error& error) {  // kept with the run; main() prints it
      directory.on_failure(solver.iteration(), error.what());
      throw;
    }
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
    std::string out = fmt::format("kinet simulate {} --workers {}", shell_word(solver_), workers_);
    out += fmt::format(" --step-seconds {} --clock {}", step_seconds_, clock_);
    add_flag("--slow", slow_.text, out);
    add_flag("--weights", join(options_.weights, ","), out);
    add_flag("--resume", options_.resume, out);
    add_flag("--replay", options_.replay, out);
    add_flag("--out", out_, out);
    for (const std::string& assignment : options_.set) add_flag("--set", assignment, out);
    if (options_.threads > 1) add_flag("--threads", std::to_string(options_.threads), out);
    add_flag("--seed", seed_, out);
    return out;
  }

  void print_head(Console& console, const Simulation& sim, Solver& solver,
                  const RunDirectory& directory) const {
    console.paragraph(build_info_line());
    console.paragraph(net_line(solver.train_net()));
    console.line("Run directory: " + directory.folder().string());
    console.line(fmt::format(
        "Simulated: {} workers, {}; a gradient takes {:g} s ({}){}; network {}. All times are "
        "virtual.",
        workers_, describe_sync(*sim.config, sim.roles), step_seconds_, clock_,
        slow_.text.empty() ? "" : ", slowed " + slow_.text, sim.runtime.sim->describe()));
  }

  static void print_foot(Console& console, const FinishRecord& end, const RunDirectory& directory) {
    if (!end.last_snapshot.empty()) console.line("Last snapshot: " + end.last_snapshot);
    console.line(fmt::format("Virtual time: {:.6g} s", end.seconds));
    console.line("Report: " + (directory.folder() / "report.html").string());
  }

  std::string solver_, seed_, out_, clock_, calibrate_;
  ClusterCommand cluster_;
  SolverOptions options_;
  SlowFlag slow_;
  std::string sync_;
  int workers_ = 0;
  std::optional<double> step_given_;
  double step_seconds_ = 0.01;
  bool quiet_ = false;
};
KINET_REGISTER_COMMAND(Simulate);

}  // namespace
}  // namespace kinet
