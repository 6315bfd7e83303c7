// A worker whose gradients go to servers: takes orders, computes, pushes.
//
// Order of one gradient: change over to the weights that came; forward; backward, while pieces of
// the gradient leave (overlap); the norm; the header. Then it waits for the next order.
// Mini-batches are numbered per worker: batch b of worker i of N is that of iteration b in
// bulk-synchronous training, so both read the same items.
#include <cmath>

#include "src/base/check.h"
#include "src/math/vec.h"
#include "src/solver/solver_impl.h"
#include "src/sync/sync_fields.h"

namespace kinet {
namespace {

bool wanted(const SolverControl& control, const WishMessage& told) {
  return (control.stop && !told.stop) || (control.stop_now && !told.stop_now) || control.snapshot;
}

}  // namespace

// Ends a pass that is of no use any more, and lets pieces of the gradient leave.
class Solver::Impl::Hook : public PassHook {
 public:
  Hook(WorkerLink& link, bool overlap) : link_(link), overlap_(overlap) {}
  bool go_on() override { return !link_.cancelled(); }
  void gradients_final(size_t from, size_t to) override {
    if (!overlap_) return;
    link_.push(from, to);
    pushed = true;
  }
  bool pushed = false;

 private:
  WorkerLink& link_;
  const bool overlap_;
};

void Solver::Impl::become_worker(Communicator& communicator) {
  comm = &communicator;
  const Params sync = config->params().message("sync_param");
  const Params comm_params = config->params().message("comm_param");
  SyncLayout layout{options.servers, options.workers, train->gradient_arena().size(),
                    train->buffer_arena().size()};
  layout.check();
  if (!comm_params.get_bool("packed")) layout.cut_at(segments);
  WorkerLinkOptions link_options;
  link_options.timeout = comm_params.get_double("wait_timeout");
  const bool in_place = comm_params.get_bool("in_place") && layout.cuts.empty();
  link_options.bucket_bytes =
      layout.cuts.empty() ? static_cast<size_t>(comm_params.get_int("bucket_bytes")) : 0;
  overlap = comm_params.get_bool("overlap");
  RuleSetup setup;
  setup.segments = segments;
  setup.settings = read_rule(config->params());
  setup.solver_type = type;
  setup.workers = options.workers;
  setup.threads = threads;
  setup.iter_size = settings.iter_size;
  worker_rule = make_sync_model(sync, {options.workers, momentum(), type})->make_worker_rule();
  build_compressor(layout, setup, link_options);
  link_options.lend_slots = in_place && compressor == nullptr;
  // A rule's steps and a search's trials write into the weights.
  link_options.lend_weights = in_place && worker_rule == nullptr && lr_search == nullptr;
  link = std::make_unique<WorkerLink>(communicator, layout, link_options);
  own_memory = page_locked(link->memory(), link->owner());
  if (worker_rule == nullptr) {
    train->move_gradients(link->gradients(), own_memory);
  } else {
    worker_rule->set_up(setup, layout.floats);
  }
  const std::span<float> weights = train->parameter_arena(), buffers = train->buffer_arena();
  std::copy(weights.begin(), weights.end(), link->weights(0).begin());
  std::copy(buffers.begin(), buffers.end(), link->buffers(0).begin());
  train->use_parameters(link->weights(0), link->buffers(0), own_memory);
}

std::shared_ptr<void> Solver::Impl::lent_owner(std::span<float> block) {
  const std::span<std::byte> own = link->memory();
  const auto* begin = reinterpret_cast<const std::byte*>(block.data());
  if (begin >= own.data() && begin < own.data() + own.size()) return own_memory;
  std::shared_ptr<void>& locked = page_locks[begin];
  if (locked == nullptr) locked = page_locked(as_writable_bytes(block), link->owner());
  return locked;
}

// What a worker rule pushes is a mean already.
void Solver::Impl::build_compressor(const SyncLayout& layout, RuleSetup known,
                                    WorkerLinkOptions& link_options) {
  const CompressSettings compress = read_compress(config->params(), options.workers);
  if (!compress.any()) return;
  if (worker_rule != nullptr) known.iter_size = 1;
  compressor =
      std::make_unique<PushCompressor>(compress, layout, std::move(known), seed, options.worker);
  for (int s = 0; s < layout.servers; ++s) {
    link_options.encoded_bytes.push_back(compressor->most_bytes(s));
  }
}

FinishRecord Solver::Impl::work(SolverControl& control) {
  started = now();
  link->join();
  worker_batch = -1;
  using Kind = WorkerLink::Order::Kind;
  for (;;) {
    note("waiting for weights");
    const WorkerLink::Order order = link->wait([&] { return wanted(control, told); });
    if (order.kind == Kind::kStop) break;
    tell_wishes(control);
    if (order.kind == Kind::kTest) test_for(order);
    if (order.kind == Kind::kCompute) compute_for(order);
  }
  link->say_bye();
  FinishRecord record;
  record.iteration = iteration;
  record.seconds = now() - started;
  record.loss = loss;
  record.reason = "the lead ended the run";
  return record;
}

// What the user wants of this process concerns all; the lead decides.
void Solver::Impl::tell_wishes(SolverControl& control) {
  if (!wanted(control, told)) return;
  WishMessage wish;
  wish.stop = control.stop;
  wish.stop_now = control.stop_now;
  wish.snapshot = control.snapshot.exchange(false);
  told.stop = wish.stop;
  told.stop_now = wish.stop_now;
  link->wish(wish);
}

void Solver::Impl::go_to_batch(int64_t batch) {
  if (batch != worker_batch) seek_all(batch);
  worker_batch = batch;
}

void Solver::Impl::compute_for(const WorkerLink::Order& order) {
  const AnswerMessage& answer = order.answer;
  iteration = answer.iteration;
  rate = answer.learning_rate;
  note("computing the gradient");
  go_to_batch(answer.batch);
  link->wait_sent();
  train->use_parameters(order.weights, order.buffers, lent_owner(order.weights));
  if (worker_rule == nullptr) {
    train->use_gradients(link->gradients(), lent_owner(link->gradients()));
  }
  const double begin = now();
  link->begin_push(answer);
  Hook hook(*link, overlap && worker_rule == nullptr && compressor == nullptr);
  steps_done = answer.steps;
  if (worker_rule != nullptr) receive_rule(answer);
  // What is pushed may be known before the gradient is: it leaves at once, with the loss before it.
  const bool early = overlap && worker_rule != nullptr && worker_rule->pushes_early() && pushed_any;
  if (early) {
    push_rule();
    send_push(answer, hook, begin);
  }
  const bool whole = worker_rule != nullptr ? rule_steps(hook) : pass_for(hook);
  worker_batch += steps_done;
  if (!early && !whole) link->give_up();
  if (early || !whole) return;
  if (worker_rule != nullptr) push_rule();
  send_push(answer, hook, begin);
  observer.on_iteration(iteration, loss);
}

void Solver::Impl::send_push(const AnswerMessage& answer, const Hook& hook, double begin) {
  GradientMessage header;
  const std::span<float> gradient = link->gradients();
  if (!hook.pushed && compressor == nullptr) link->push(0, gradient.size());
  const std::span<float> buffers = train->buffer_arena();
  std::copy(buffers.begin(), buffers.end(), link->pushed_buffers().begin());
  const double parts = worker_rule != nullptr ? 1 : static_cast<double>(settings.iter_size);
  norm = gradient_norm(gradient, threads) / parts;
  header.steps = steps_done;
  header.outcome = outcome();
  if (compressor != nullptr) {
    send_encoded(answer, header.outcome == Outcome::kGradient);
    norm = gradient_norm(gradient, threads) / parts;
  }
  header.loss = loss;
  header.norm_squared = norm * norm;
  header.rate = own_multiplier();
  const std::vector<uint64_t> words = search_words();
  KINET_CHECK(words.empty() || words.size() == header.search.size(),
              "a search has {} numbers, a header room for {}", words.size(), header.search.size());
  std::copy(words.begin(), words.end(), header.search.begin());
  if (const BatchSource* source = train_source()) {
    header.samples = source->batch_size() * settings.iter_size * steps_done;
  }
  header.compute_seconds = now() - begin;
  link->finish_push(header);
  pushed_any = true;
}

// What arrives takes the place of the gradient, for its norm. One that is not finite would stay in
// a codec's memory: it is not encoded, and in its place go bytes that nobody will look at.
void Solver::Impl::send_encoded(const AnswerMessage& answer, bool finite) {
  const std::span<float> gradient = link->gradients();
  if (finite) compressor->prepare(train->parameter_arena(), gradient);
  for (int s = 0; s < options.servers; ++s) {
    const size_t bytes = compressor->bytes(s, answer.seq);
    if (finite) compressor->encode(s, answer.seq, gradient, link->encoded(s).first(bytes));
    link->push_encoded(s, bytes);
  }
}

// Whose fault it is when the gradient is not finite: this worker's, or that of the weights it got.
Outcome Solver::Impl::outcome() const {
  if (std::isfinite(loss) && std::isfinite(norm)) return Outcome::kGradient;
  if (worker_rule != nullptr) return Outcome::kNotFinite;  // the weights it got have moved since
  const std::span<const float> weights = train->parameter_arena();
  const bool finite = vec().all_finite(static_cast<int64_t>(weights.size()), weights.data());
  return finite ? Outcome::kNotFinite : Outcome::kBadWeights;
}

// Forward and backward, iter_size times. false: it was ended in between.
bool Solver::Impl::pass_for(Hook& hook) {
  const double begin = now();
  const std::vector<int64_t> before = positions();
  search_passes = 0;
  train->zero_gradients();
  GoOnOnly earlier(&hook);
  double sum = 0;
  for (int64_t micro = 0; micro < settings.iter_size && std::isfinite(sum); ++micro) {
    const bool last = micro + 1 == settings.iter_size;
    const std::optional<double> one =
        run_pass(micro, last ? static_cast<PassHook*>(&hook) : &earlier);
    if (!one) return false;
    sum += *one;
  }
  loss = sum / static_cast<double>(settings.iter_size);
  if (lr_search != nullptr && std::isfinite(loss)) search_rate(before);
  link->pause(pause_after(now() - begin));
  return !link->cancelled();
}

void Solver::Impl::receive_rule(const AnswerMessage& answer) {
  RuleAnswer known;
  known.iteration = answer.iteration;
  known.steps = answer.steps;
  known.schedule = [this](int64_t i) { return learning_rate(policy, i); };
  worker_rule->received(train->parameter_arena(), known);
}

// Mini-batches until the model's rule has something to push.
bool Solver::Impl::rule_steps(Hook& hook) {
  const int64_t first = worker_batch;
  double sum = 0;
  bool whole = true, more = true;
  for (steps_done = 0; more && whole && std::isfinite(sum);) {
    worker_batch = first + steps_done;
    whole = pass_for(hook);
    if (!whole) break;
    ++steps_done;
    sum += loss;
    more = !rule_step(steps_done);
  }
  worker_batch = first;
  if (steps_done > 0) loss = sum / static_cast<double>(steps_done);
  return whole;
}

// true: it is time to push.
bool Solver::Impl::rule_step(int64_t number) {
  const std::span<float> gradient = train->gradient_arena();
  double scale = 1 / static_cast<double>(settings.iter_size);
  if (settings.clip > 0) {
    const double length = gradient_norm(gradient, threads) * scale;
    if (length > settings.clip) scale *= settings.clip / length;
  }
  if (scale != 1) {
    vec().scale(static_cast<int64_t>(gradient.size()), static_cast<float>(scale), gradient.data(),
                gradient.data());
  }
  return worker_rule->step(train->parameter_arena(), gradient, loss, number);
}

void Solver::Impl::push_rule() {
  worker_rule->push(train->parameter_arena(), train->gradient_arena(), link->gradients());
}

void Solver::Impl::test_for(const WorkerLink::Order& order) {
  const TestTaskMessage& task = order.test;
  note("testing", true);
  train->use_parameters(order.weights, order.buffers, lent_owner(order.weights));
  std::vector<double> sums;
  for (size_t i = 0; i < tests.size(); ++i) {
    const TestPlan plan{static_cast<int>(i), task.iteration, test_batches[i]};
    const auto part = score_share(*tests[i], plan, {task.share, task.shares},
                                  context(Phase::kTest, 0), [&] { return link->ended(); });
    if (!part) return;  // the run ends, nobody waits for it
    part->pack(sums);
  }
  link->send_test_sums(task, sums);
}

}  // namespace kinet
