// The run: for each iteration, as Caffe orders it,
//   test (when due) -> gradient -> display (when due) -> update -> snapshot (when due),
// so a display at iteration i shows the loss of the weights after i updates, and a test at i scores
// the same weights. At the end: snapshot, then a last test.
#include <chrono>
#include <numeric>

#include "src/base/check.h"
#include "src/solver/global_batch.h"
#include "src/solver/solver_impl.h"

namespace kinet {
namespace {

bool due(int64_t interval, int64_t iteration) { return interval > 0 && iteration % interval == 0; }

bool stop_wanted(const SolverControl& control) { return control.stop || control.stop_now; }

}  // namespace

double Solver::Impl::now() const {
  if (options.now) return options.now();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

FinishRecord Solver::Impl::run(SolverControl& control) {
  started = now();
  observer.on_start(start_record());
  std::string reason;
  while (reason.empty()) {
    if (bsp == nullptr ? stop_wanted(control) : stop_agreed) {
      reason = "interrupted";
    } else if (iteration >= end) {
      reason = end_reason;
    } else if (test_due()) {
      test_and_tell(&control);
      if (tested_iteration == iteration && early_stop->should_stop()) reason = early_stop->reason();
    } else {
      iterate(control);
    }
  }
  return finish(control, reason);
}

void Solver::Impl::iterate(SolverControl& control) {
  const double begin = now();
  if (!compute_gradient(&control)) return;
  double shown = 0;
  if (due(settings.display, iteration)) {  // of the whole iterations before this one
    const double from = now();
    rate = scheduled_rate();
    display();
    shown = now() - from;
  }
  apply_update();
  const double took = now() - begin - shown;
  train_seconds += took;
  step_seconds += took;
  ++since_display;
  observer.on_iteration(iteration, loss);
  const bool asked = bsp == nullptr ? control.snapshot.exchange(false) : snapshot_agreed;
  if (asked || due(settings.snapshot, iteration)) snapshot_or_warn();
}

FinishRecord Solver::Impl::finish(SolverControl& control, const std::string& reason) {
  if (settings.snapshot_after_train && !control.stop_now && snapshot_tried != iteration) {
    snapshot_or_warn();
  }
  if (bsp == nullptr ? !stop_wanted(control) : !stop_agreed) {
    if (due(settings.display, iteration) && since_display > 0) display();
    if (tested_iteration != iteration) test_and_tell(&control);
  }
  tell_search();
  FinishRecord record;
  record.iteration = iteration;
  record.seconds = now() - started;
  record.loss = smoothed_loss();
  record.reason = reason;
  record.last_snapshot = last_snapshot;
  observer.on_finish(record);
  // Last: launchers take the first rank that ends for a sign to end the others.
  if (bsp != nullptr && !exchange_broken) bsp->finish();
  // The run itself went well, but what it was for is not on the disk.
  if (!failed_snapshot.empty()) throw Error(failed_snapshot, Error::Kind::kRuntime);
  return record;
}

bool Solver::Impl::test_due() const {
  return !tests.empty() && due(settings.test_interval, iteration) &&
         tested_iteration != iteration && (iteration > 0 || settings.test_initialization);
}

// A test that the user cuts short is as if it had not begun. All workers have the same records, so
// that all decide alike whether to stop early; the first one tells.
void Solver::Impl::test_and_tell(SolverControl* control) {
  note("testing", true);
  const double begin = now() - started;
  std::vector<TestRecord> records = bsp == nullptr ? test_all(control) : test_together(*control);
  if (records.size() < tests.size()) return;
  for (TestRecord& record : records) {
    record.at = begin;
    early_stop->observe(record);
    if (leader()) observer.on_test(record);
  }
  tested_iteration = iteration;
}

StartRecord Solver::Impl::start_record() const {
  StartRecord r;
  r.net_name = train->name();
  r.solver_type = type;
  r.lr_policy = policy.policy;
  r.seed = seed;
  r.seed_chosen = seed_chosen;
  r.threads = threads;
  r.iteration = iteration;
  r.max_iterations = end;
  r.resumed_from = resumed_from;
  r.weights = weights;
  r.parameters = train->parameter_count();
  r.iter_size = settings.iter_size;
  r.workers = options.workers;
  if (options.workers > 1 || options.servers > 0) {
    const Params sync = config->params().message("sync_param");
    r.iteration_rule = iteration_rule(sync.get_string("model"), sync.get_enum("absorb"),
                                      options.servers, options.workers);
  }
  if (const BatchSource* source = train_source()) {
    r.batch = source->batch_size();
    r.train_items = source->items();
    r.iterations_per_epoch =
        static_cast<double>(r.train_items) / static_cast<double>(r.batch * batches_an_update());
  }
  const int entries = optimizer->histories();
  r.history = resumed_from.empty() ? "empty"
                                   : fmt::format("restored ({} {} a parameter)", entries,
                                                 entries == 1 ? "entry" : "entries");
  return r;
}

double Solver::Impl::smoothed_loss() const {
  if (recent.empty()) return 0;
  return std::accumulate(recent.begin(), recent.end(), 0.0) / static_cast<double>(recent.size());
}

// After the last update there is no new loss: the last display repeats the mean of those before.
void Solver::Impl::display() {
  DisplayRecord r;
  r.iteration = iteration;
  r.seconds = now() - started;
  r.loss = smoothed_loss();
  r.learning_rate = rate;
  r.gradient_norm = norm;
  r.since_last = since_display;
  r.seconds_since_last = train_seconds;
  if (bsp != nullptr) r.waiting_seconds = bsp->take_waiting();
  r.rate_multiplier = multiplier;
  if (step_seconds > 0) r.search_share = search_seconds / step_seconds;
  if (since_display > 0 && train_seconds > 0) {
    r.iterations_per_second = static_cast<double>(since_display) / train_seconds;
  }
  if (const BatchSource* source = train_source()) {
    const auto images = static_cast<double>(source->batch_size() * batches_an_update());
    r.images_per_second = r.iterations_per_second * images;
    r.epoch = static_cast<double>(iteration) * images / static_cast<double>(source->items());
    if (side != nullptr) count_samples(*source, r);
  }
  if (side == nullptr) r.outputs = output_values(*train);  // a server's net sees no data
  observer.on_display(r);
  since_display = 0;
  train_seconds = 0;
}

// A snapshot that cannot be written costs no training: the run goes on (on_snapshot_error), and the
// snapshots before stay.
void Solver::Impl::snapshot_or_warn() {
  if (!leader()) return;
  note("writing a snapshot", true);
  check_finite();
  failed_snapshot.clear();
  try {
    observer.on_snapshot(iteration, snapshot());
  } catch (const Error& error) {
    if (settings.stop_on_snapshot_error) throw;
    failed_snapshot = fmt::format("no snapshot of iteration {}: {}", iteration, error.what());
    observer.on_warning(failed_snapshot + (last_snapshot.empty()
                                               ? std::string("; there is none before")
                                               : "; the last one is " + last_snapshot));
  }
}

}  // namespace kinet
