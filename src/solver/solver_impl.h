// The state of a solver, shared by the files that drive it:
//   solver.cc      building it, the public face
//   step.cc        one iteration
//   lr_step.cc     the learning-rate search within an iteration
//   train_loop.cc  the run: tests, display, snapshots, the end
//   test_shares.cc a test in shares by all workers
//   checkpoint.cc  snapshots, resuming, starting weights
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/net/snapshot.h"
#include "src/optim/lr_policy.h"
#include "src/optim/optimizer.h"
#include "src/solver/early_stop.h"
#include "src/solver/solver.h"
#include "src/solver/test_pass.h"
#include "src/sync/bsp.h"
#include "src/sync/compress.h"
#include "src/sync/lead.h"
#include "src/sync/lr_search.h"
#include "src/sync/state_gather.h"
#include "src/sync/worker_link.h"

namespace kinet {

// Fields of the solver file that the loop reads again and again.
struct LoopSettings {
  int64_t iter_size = 1, display = 0, average_loss = 1;
  int64_t test_interval = 0, snapshot = 0;
  bool test_initialization = true, snapshot_after_train = true, stop_on_snapshot_error = false;
  double clip = -1;  // largest norm of the averaged gradient; not positive: no limit
};

// What a server has besides a solver.
struct ServerSide {
  SyncLayout layout;
  std::unique_ptr<SyncModel> model;  // of the lead
  CompressSettings compress;
  std::unique_ptr<Shard> shard;
  std::unique_ptr<ServerRank> rank;
  std::unique_ptr<StateGather> gather;
  WholeState whole;             // at the lead: all slices, as they were
  int64_t gathered_round = -1;  //   in this round
  std::unique_ptr<Lead> lead;   // null: not the lead
  int64_t test_iteration = -1;  // of the last test that was begun
  double test_began = 0;
  int64_t displayed = -1;  // iteration of the last display
  double last_display = 0;
  int64_t samples_shown = 0, first_iteration = 0;
};

struct Solver::Impl {
  Impl(std::shared_ptr<const SolverConfig> config, const SolverOptions& options,
       SolverObserver& observer);

  // --- solver.cc
  void choose_seed(const Snapshot* resumed);
  void build_nets();
  void build_optimizer();
  void build_device_optimizer();
  void find_end();  // from max_iter, max_epochs and the data
  Context context(Phase phase, int64_t pass) const;
  BatchSource* train_source() const;  // the first one, or null
  TestPlan test_plan(size_t net) const;
  std::vector<TestRecord> test_all(const SolverControl* control);  // fewer records when stopped

  // --- step.cc
  // Forward and backward, iter_size times; throws when not finite. false: control->stop_now was set
  // in between or pass_hook has ended a pass, and everything is as it was before.
  bool compute_gradient(SolverControl* control);
  std::optional<double> run_pass(int64_t micro, PassHook* hook);
  void undo_iteration(const std::vector<int64_t>& positions);
  // Sums the gradients of all workers; false: they agreed to stop, and nothing of this iteration
  // is applied.
  bool exchange_gradients(SolverControl* control, const std::vector<int64_t>& positions,
                          double computed);
  [[noreturn]] void stop_for_loss(const Error& error);  // another worker is lost
  // What this worker waits after a gradient that took `computed` seconds: SolverOptions.
  double pause_after(double computed);
  // Tests, displays and writes snapshots.
  bool leader() const { return options.servers > 0 ? options.server == 0 : options.worker == 0; }
  void note(const std::string& phase, bool slow = false);
  int64_t batches_an_update() const { return settings.iter_size * options.workers; }
  // A worker of servers counts its own mini-batches.
  int64_t pass_number(int64_t micro) const {
    const int64_t batch = link != nullptr ? worker_batch : iteration;
    return (batch * settings.iter_size + micro) * options.workers + options.worker;
  }
  void apply_update();
  // On a device, weights are updated there, unless the update is that of servers.
  bool updates_on_device() const;
  // The owner of memory that copies to and from the device use, which is page-locked from now on,
  // if there is a device; a warning when it cannot be.
  std::shared_ptr<void> page_locked(std::span<std::byte> memory, std::shared_ptr<void> owner);
  double gradient_length();                     // of the sum over micro-batches
  std::span<const float> host_history() const;  // up to date
  [[noreturn]] void stop_non_finite(const std::vector<int64_t>& positions);
  std::vector<int64_t> positions() const;
  void seek(const std::vector<int64_t>& positions);
  void seek_all(int64_t iteration);  // where training without a break would be then

  // --- serve.cc: this is a server; the lead also does what worker 0 does elsewhere
  void become_server(Communicator& communicator);
  double momentum() const { return config->params().get_double("momentum"); }
  bool shared_test_due() const;
  FinishRecord serve(SolverControl& control);
  FinishRecord serve_slice(const SolverControl& control);
  void lead_on(SolverControl& control, std::string& reason);
  void after_round(double before);
  [[noreturn]] void save_what_there_is(const Error& error);
  void count_samples(const BatchSource& source, DisplayRecord& record);
  void tell_round(const LeadRound& round);
  void start_shared_test();
  void finish_shared_test();
  void save_sync(SyncExtras& out);
  void restore_sync();
  void follow_log();
  void restore_own_momenta();
  bool resumes_sync() const;  // the state that this run goes on from is of such a run
  // The lead: fetches the other servers' slices, once a round.
  void gather_state();
  std::span<const float> whole_history() const;
  void slice_history(size_t begin, size_t end);

  // --- worker.cc: this is a worker of servers
  void become_worker(Communicator& communicator);
  FinishRecord work(SolverControl& control);
  class Hook;
  void compute_for(const WorkerLink::Order& order);
  Outcome outcome() const;
  bool pass_for(Hook& hook);
  void send_push(const AnswerMessage& answer, const Hook& hook, double begin);
  void send_encoded(const AnswerMessage& answer, bool finite);
  void build_compressor(const SyncLayout& layout, RuleSetup known, WorkerLinkOptions& link_options);
  void receive_rule(const AnswerMessage& answer);
  bool rule_steps(Hook& hook);
  bool rule_step(int64_t number);
  void push_rule();
  void test_for(const WorkerLink::Order& order);
  void tell_wishes(SolverControl& control);
  void go_to_batch(int64_t batch);
  // The owner of a block of an order's: locked when it is first seen.
  std::shared_ptr<void> lent_owner(std::span<float> block);

  // --- lr_step.cc
  void build_search();
  // After forward and backward, when a search is due; disturbs nothing.
  void search_rate(const std::vector<int64_t>& positions);
  double own_multiplier() const { return lr_search == nullptr ? 1 : lr_search->multiplier(); }
  // What the gradient arena is multiplied by: of several workers, the mean of their multipliers.
  double in_gradient() const { return bsp == nullptr ? 1 : multiplier; }
  double scheduled_rate() const;  // of this iteration, with the multiplier of its gradient
  std::vector<uint64_t> search_words() const;
  void take_search_words(const std::vector<std::vector<uint64_t>>& by_rank);
  std::vector<LrSearchRecord> search_records() const;
  void resume_search(const Snapshot& snapshot);
  void tell_search();  // the note at the end of a run

  // --- train_loop.cc
  double now() const;  // options.now
  FinishRecord run(SolverControl& control);
  void iterate(SolverControl& control);
  FinishRecord finish(SolverControl& control, const std::string& reason);
  bool test_due() const;
  void test_and_tell(SolverControl* control);
  StartRecord start_record() const;
  double smoothed_loss() const;
  void display();
  void snapshot_or_warn();

  // --- test_shares.cc: every worker scores a share, all come to the same records. Collective.
  std::vector<TestRecord> test_together(SolverControl& control);  // none: they agreed to stop
  Bsp::TestSay score_shares(const SolverControl& control);
  std::vector<TestRecord> merge_shares(const std::vector<Bsp::TestSay>& all) const;

  // --- checkpoint.cc
  void find_prefix();
  std::string snapshot();
  void check_finite();  // a model with NaN is never written
  void resume(const Snapshot& snapshot);
  void restore_positions(const Snapshot& snapshot);
  void load_weights();

  std::shared_ptr<const SolverConfig> config;
  SolverOptions options;
  SolverObserver& observer;
  LoopSettings settings;
  LrPolicy policy;
  std::string type;
  int threads = 1;
  uint64_t seed = 0;
  bool seed_chosen = false;

  std::optional<ParamNode> worker_net;  // of fixed_global_batch: with a worker's batch
  std::unique_ptr<Net> train;
  std::vector<std::unique_ptr<Net>> tests;  // bound to `train`: destroyed before it
  std::vector<std::optional<int64_t>> test_batches;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<ParameterSegment> segments;
  std::vector<float> history;                         // the host's side
  mutable Buffer device_history;                      // `history`, where there is a device
  std::unique_ptr<DeviceOptimizer> device_optimizer;  // null: the CPU
  std::unique_ptr<EarlyStop> early_stop;

  std::unique_ptr<LrSearch> lr_search;  // null: the schedule alone
  // Of all workers, by rank, after the last update; and as this iteration found them.
  std::vector<LrSearchState> lr_states, lr_states_before;
  double multiplier = 1;      // of the gradient of this iteration; of several workers: the mean
  int64_t search_passes = 0;  // of the search of this iteration
  double search_seconds = 0, step_seconds = 0;  // of this run: in searches, and in all iterations

  int64_t iteration = 0;                       // updates applied
  int64_t end = 0;                             // the run is over when `iteration` is there
  std::string end_reason;                      // "max_iter" or "max_epochs"
  double loss = 0, norm = 0;                   // of the last gradient
  double rate = 0;                             // of the last update
  Buffer buffers_before;                       // the buffer arena as this iteration found it
  PassHook* pass_hook = nullptr;               // of whoever drives this solver; asked in every pass
  Bsp* bsp = nullptr;                          // null: this worker trains alone
  Communicator* comm = nullptr;                // of a run with servers
  std::unique_ptr<ServerSide> side;            // null: this is no server
  std::unique_ptr<WorkerLink> link;            // null: this is no worker of servers
  std::unique_ptr<PushCompressor> compressor;  // null: pushes are sent as they are
  int64_t worker_batch = 0;  // of a worker of servers: number of the mini-batch at hand
  std::map<const void*, std::shared_ptr<void>> page_locks;  // of blocks that a server has lent
  std::shared_ptr<void> own_memory;                         // of `link`, page-locked
  bool page_locks_refused = false;                          // and that has been told
  bool overlap = true;
  std::unique_ptr<WorkerRule> worker_rule;  // null: gradients are pushed as they are
  int64_t steps_done = 0;                   // mini-batches behind what is pushed next
  bool pushed_any = false;                  // so there is a loss to report
  SyncExtras resumed_sync;                  // what the state that this run goes on from says
  WishMessage told;                         // what this worker has told the lead
  bool stop_agreed = false;                 // by all workers
  bool exchange_broken = false;             // this worker did not wait for the others
  bool snapshot_agreed = false;             // for the end of this iteration
  std::deque<double> recent;                // the last losses, at most average_loss
  int64_t tested_iteration = -1;            // of the last whole test

  std::string prefix;  // of snapshot paths
  std::string last_snapshot;
  int64_t snapshot_tried = -1;  // iteration of the last one, written or not
  std::string failed_snapshot;  // why the last one could not be written, or ""
  std::string resumed_from;
  std::vector<std::string> weights;  // files the run began with, in the order they were read

  double train_seconds = 0;  // in iterations alone, since the last display
  int64_t since_display = 0;
  double started = 0;  // now() when run() began
};

}  // namespace kinet
