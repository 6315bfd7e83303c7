#include "src/solver/solver.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/solver/global_batch.h"
#include "src/solver/solver_impl.h"

namespace kinet {
namespace {

LoopSettings read_settings(const Params& p) {
  LoopSettings s;
  s.iter_size = p.get_int("iter_size");
  s.display = p.get_int("display");
  s.average_loss = p.get_int("average_loss");
  s.test_interval = p.get_int("test_interval");
  s.snapshot = p.get_int("snapshot");
  s.test_initialization = p.get_bool("test_initialization");
  s.snapshot_after_train = p.get_bool("snapshot_after_train");
  s.stop_on_snapshot_error = p.get_enum("on_snapshot_error") == "STOP";
  s.clip = p.get_double("clip_gradients");
  return s;
}

}  // namespace

OptimizerSettings read_rule(const Params& p) {
  OptimizerSettings s;
  s.momentum = p.get_float("momentum");
  s.momentum2 = p.get_float("momentum2");
  s.rms_decay = p.get_float("rms_decay");
  s.delta = p.get_float("delta");
  s.weight_decay = p.get_float("weight_decay");
  s.regularization =
      p.get_enum("regularization_type") == "L1" ? Regularization::kL1 : Regularization::kL2;
  return s;
}

namespace {

int all_cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

// Small enough to be typed and to fit random_seed.
uint64_t seed_from_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(now / std::chrono::microseconds(1)) % 1'000'000'000;
}

}  // namespace

Solver::Impl::Impl(std::shared_ptr<const SolverConfig> config_in, const SolverOptions& options_in,
                   SolverObserver& observer_in)
    : config(std::move(config_in)), options(options_in), observer(observer_in) {
  const Params params = config->params();
  settings = read_settings(params);
  Diagnostics checked;  // SolverConfig found nothing wrong
  policy = read_lr_policy(params, checked);
  type = params.get_string("type");
  threads = options.threads > 0 ? options.threads : all_cores();
  KINET_CHECK(options.resume.empty() || options.weights.empty(),
              "--resume and --weights exclude each other\nhint: --resume goes on with a run, "
              "--weights starts a new one");
  for (const std::string& note : config->notes()) observer.on_note(note);
  find_prefix();
  std::optional<Snapshot> state;
  if (!options.resume.empty()) state = read_snapshot(options.resume);
  choose_seed(state ? &*state : nullptr);
  build_nets();
  build_optimizer();
  build_search();
  find_end();
  if (state) {
    resume(*state);
  } else {
    load_weights();
  }
}

void Solver::Impl::choose_seed(const Snapshot* resumed) {
  const int64_t in_file = config->params().get_int("random_seed");
  if (resumed != nullptr && resumed->extras) {
    seed = resumed->extras->seed;
    KINET_CHECK(!options.seed || *options.seed == seed,
                "{}: the run has seed {}, --seed says {}\nhint: leave --seed away when resuming",
                resumed->path, seed, *options.seed);
    if (!options.seed && in_file >= 0 && static_cast<uint64_t>(in_file) != seed) {
      observer.on_note(fmt::format("seed {} of {} is used, not random_seed {} of the solver file",
                                   seed, resumed->path, in_file));
    }
    return;
  }
  seed_chosen = !options.seed && in_file < 0;
  seed = options.seed   ? *options.seed
         : in_file >= 0 ? static_cast<uint64_t>(in_file)
                        : options.clock_seed.value_or(seed_from_clock());
}

void Solver::Impl::build_nets() {
  NetOptions net_options;
  net_options.seed = seed;
  net_options.threads = threads;
  if (options.server < 0) net_options.device = options.device;
  net_options.state = config->train_state();
  const bool fixed = config->params().message("sync_param").get_bool("fixed_global_batch");
  if (fixed && options.workers > 1) {
    worker_net = with_worker_batch(config->train_net(), net_options.state, options.workers);
  }
  train = std::make_unique<Net>(worker_net ? *worker_net : config->train_net(), net_options);
  for (int i = 0; i < config->test_net_count(); ++i) {
    net_options.state = config->test_state(i);
    tests.push_back(std::make_unique<Net>(config->test_net(i), net_options, train.get()));
  }
  const std::vector<int64_t> batches = config->params().get_ints("test_iter");
  test_batches.resize(tests.size());
  for (size_t i = 0; i < tests.size(); ++i) {
    if (i < batches.size()) test_batches[i] = batches[i];
    KINET_CHECK(test_batches[i] || !tests[i]->batch_sources().empty(),
                "{}: test net {} reads no data set, so a test has no end\nhint: give test_iter",
                config->path(), i);
  }
  for (const std::string& note : train->notes()) observer.on_note(note);
  for (BatchSource* source : train->batch_sources()) {
    source->partition(options.worker, options.workers);
  }
  early_stop = std::make_unique<EarlyStop>(config->params().message("early_stop_param"),
                                           tests.empty() ? nullptr : tests.front().get());
}

void Solver::Impl::build_optimizer() {
  bool learns = false;
  for (int i = 0; i < train->layer_count(); ++i) learns |= train->layer_runs_backward(i);
  KINET_CHECK(learns && train->parameter_count() > 0,
              "{}: the train net has nothing to learn: no loss, no parameters, or none between",
              config->path());
  optimizer = make_optimizer(type, read_rule(config->params()));
  history.assign(train->parameter_arena().size() * static_cast<size_t>(optimizer->histories()), 0);
  for (const ParameterInfo& p : train->parameters()) {
    if (!p.is_buffer) segments.push_back({p.offset, p.count, p.lr_mult, p.decay_mult});
  }
  if (train->device() != nullptr) build_device_optimizer();
}

void Solver::Impl::build_device_optimizer() {
  device_optimizer = options.device->make_optimizer(type, read_rule(config->params()), segments);
  KINET_CHECK(device_optimizer != nullptr,
              "{}: type {} does not run on {}\nhint: run on the CPU with solver_mode: CPU",
              config->path(), type, options.device->description());
  device_history.attach(options.device);
  device_history.move_to(history, nullptr);
  device_history.written_on_host();
}

std::shared_ptr<void> Solver::Impl::page_locked(std::span<std::byte> memory,
                                                std::shared_ptr<void> owner) {
  if (train->device() == nullptr || memory.empty()) return owner;
  std::string why;
  std::shared_ptr<void> locked =
      train->device()->lock_pages(memory.data(), memory.size(), owner, &why);
  if (locked != nullptr) return locked;
  if (!page_locks_refused) {
    observer.on_warning(fmt::format(
        "{} that gradients and weights travel through cannot be page-locked ({}): their copies to "
        "and from the GPU take longer and run beside nothing\nhint: raise the limit of locked "
        "memory: ulimit -l unlimited",
        human_bytes(memory.size()), why));
  }
  page_locks_refused = true;
  return owner;
}

std::span<const float> Solver::Impl::host_history() const {
  device_history.to_host();
  return history;
}

void Solver::Impl::find_end() {
  const Params params = config->params();
  end = params.has("max_iter") ? params.get_int("max_iter") : std::numeric_limits<int64_t>::max();
  end_reason = "max_iter";
  if (params.has("max_epochs")) {
    const BatchSource* source = train_source();
    if (source == nullptr || source->items() <= 0) {
      fail_at(params.where("max_epochs"),
              "max_epochs needs a train net that reads a data set\nhint: use max_iter");
    }
    const double items = params.get_double("max_epochs") * static_cast<double>(source->items());
    const auto step = static_cast<double>(source->batch_size() * batches_an_update());
    const double most = std::numeric_limits<int32_t>::max();  // what a state can count to
    const auto iterations = static_cast<int64_t>(std::min(std::ceil(items / step), most));
    if (iterations < end) end = iterations, end_reason = "max_epochs";
  }
  policy.max_iter = end;
}

Context Solver::Impl::context(Phase phase, int64_t pass) const {
  Context c;
  c.phase = phase;
  c.threads = threads;
  c.seed = seed;
  c.pass = pass;
  return c;
}

BatchSource* Solver::Impl::train_source() const {
  return train->batch_sources().empty() ? nullptr : train->batch_sources().front();
}

TestPlan Solver::Impl::test_plan(size_t net) const {
  return {static_cast<int>(net), iteration, test_batches[net]};
}

std::vector<TestRecord> Solver::Impl::test_all(const SolverControl* control) {
  const auto stop = [control] {
    return control != nullptr && (control->stop || control->stop_now);
  };
  std::vector<TestRecord> records;
  for (size_t i = 0; i < tests.size(); ++i) {
    const double start = now();
    auto record = run_test_pass(*tests[i], test_plan(i), context(Phase::kTest, 0), stop);
    if (!record) break;
    record->seconds = now() - start;
    records.push_back(std::move(*record));
  }
  return records;
}

Solver::Solver(std::shared_ptr<const SolverConfig> config, const SolverOptions& options,
               SolverObserver& observer)
    : impl_(std::make_unique<Impl>(std::move(config), options, observer)) {}
Solver::~Solver() = default;

FinishRecord Solver::run(SolverControl& control) {
  if (impl_->side) return impl_->serve(control);
  return impl_->link ? impl_->work(control) : impl_->run(control);
}

void Solver::attach(Bsp& bsp) {
  KINET_CHECK(bsp.workers() == impl_->options.workers && bsp.rank() == impl_->options.worker,
              "worker {} of {} cannot be rank {} of {}", impl_->options.worker,
              impl_->options.workers, bsp.rank(), bsp.workers());
  const std::span<float> gradients = bsp.gradients();
  impl_->train->move_gradients(gradients,
                               impl_->page_locked(as_writable_bytes(gradients), bsp.owner()));
  impl_->bsp = &bsp;
  if (!impl_->updates_on_device()) return;
  bsp.on_summed(
      [net = impl_->train.get()](size_t from, size_t to) { net->begin_gradients_up(from, to); });
}

void Solver::attach(Communicator& comm) {
  const SolverOptions& o = impl_->options;
  const Rank rank = o.server >= 0 ? o.server : o.servers + o.worker;
  KINET_CHECK(comm.size() == o.servers + o.workers && comm.rank() == rank,
              "{} servers and {} workers cannot be {} ranks, nor this one rank {}", o.servers,
              o.workers, comm.size(), comm.rank());
  try {
    if (o.server >= 0) {
      impl_->become_server(comm);
    } else {
      impl_->become_worker(comm);
    }
  } catch (...) {
    detach();  // the communicator may end before this solver does
    throw;
  }
}

void Solver::detach() {
  impl_->side.reset();
  impl_->link.reset();
  impl_->page_locks.clear();
  impl_->own_memory.reset();
}

void Solver::step() {
  impl_->compute_gradient(nullptr);
  impl_->apply_update();
}

std::vector<TestRecord> Solver::test() { return impl_->test_all(nullptr); }
std::string Solver::snapshot() { return impl_->snapshot(); }
bool Solver::searches_rate() const { return impl_->lr_search != nullptr; }
int Solver::servers() const { return impl_->options.servers; }
int64_t Solver::iteration() const { return impl_->iteration; }
uint64_t Solver::seed() const { return impl_->seed; }
const std::vector<std::string>& Solver::weights() const { return impl_->weights; }
double Solver::loss() const { return impl_->loss; }
Net& Solver::train_net() { return *impl_->train; }
Net& Solver::test_net(int index) { return *impl_->tests[index]; }
double Solver::rate_multiplier() const { return impl_->own_multiplier(); }
size_t Solver::gradient_floats() const { return impl_->train->gradient_arena().size(); }
size_t Solver::buffer_floats() const { return impl_->train->buffer_arena().size(); }

std::span<const float> Solver::history() const { return impl_->host_history(); }

}  // namespace kinet
