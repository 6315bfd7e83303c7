// A server of a run. The lead also does what worker 0 does where there are no servers: it decides
// when to test, display and save, and ends the run.
//
// The loop of the lead, for each round as it is applied:
//   display (when due) -> snapshot (when due) -> test (when due; the workers test, each a share,
//   and training goes on meanwhile)
// An iteration is due when the sum of the rounds' weights has reached it, so a display, test or
// snapshot at iteration i is of the first version of the weights at or after i.
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/solver/replay_log.h"
#include "src/solver/solver_impl.h"
#include "src/solver/worker_table.h"
#include "src/sync/sync_fields.h"

namespace kinet {
namespace {

int64_t whole(double iteration) { return static_cast<int64_t>(std::floor(iteration)); }

// A multiple of `interval` lies in (before, after].
bool passed(int64_t interval, int64_t before, int64_t after) {
  return interval > 0 && before / interval != after / interval;
}

bool wanted(const SolverControl& c) { return c.stop || c.stop_now || c.snapshot; }

}  // namespace

void Solver::Impl::become_server(Communicator& communicator) {
  comm = &communicator;
  const Params sync = config->params().message("sync_param");
  side = std::make_unique<ServerSide>();
  ServerSide& s = *side;
  s.layout = {options.servers, options.workers, train->gradient_arena().size(),
              train->buffer_arena().size()};
  s.layout.check();
  if (!config->params().message("comm_param").get_bool("packed")) s.layout.cut_at(segments);
  const size_t begin = s.layout.begin(options.server), end = s.layout.end(options.server);
  const std::span<float> weights = train->parameter_arena().subspan(begin, end - begin);
  s.model = make_sync_model(sync, {options.workers, momentum(), type, s.layout.floats});
  if (!options.replay.empty()) follow_log();
  ShardSetup setup;
  setup.weights = weights;
  slice_history(begin, end);
  setup.history = history;
  setup.segments = cut_segments(segments, begin, end);
  setup.solver_type = type;
  setup.settings = read_rule(config->params());
  setup.iter_size = settings.iter_size;
  setup.clip = settings.clip;
  setup.workers = options.workers;
  setup.threads = threads;
  setup.gradients = s.model->make_worker_rule() == nullptr;
  s.compress = read_compress(config->params(), options.workers);
  s.compress.leave_out(setup);
  s.shard = std::make_unique<Shard>(setup, s.model->make_server_rule());
  const double timeout = config->params().message("comm_param").get_double("wait_timeout");
  s.rank = std::make_unique<ServerRank>(
      communicator, s.layout, *s.shard, weights,
      options.server == 0 ? train->buffer_arena() : std::span<float>(), s.model->slots(), timeout,
      make_codec(s.compress, s.layout, options.server, segments));
  s.gather = std::make_unique<StateGather>(communicator, s.layout, *s.shard, optimizer->histories(),
                                           timeout);
  restore_own_momenta();
  if (options.server > 0) {
    s.rank->on_complete([&communicator](int worker, uint32_t seq_tag) {
      communicator.send(0, kCompleteKind, bytes_of(CompleteMessage{worker, seq_tag}));
    });
    return;
  }
  LeadOptions lead;
  lead.timeout = timeout;
  lead.end = end;
  lead.max_bad = sync.get_int32("max_bad");
  lead.schedule = [this](int64_t i) { return learning_rate(policy, i); };
  lead.successor_timeout = options.successor_timeout;
  lead.note = [this](const std::string& text) { observer.on_note(text); };
  lead.warn = [this](const std::string& text) { observer.on_warning(text); };
  s.lead = std::make_unique<Lead>(communicator, s.layout, *s.rank, *s.model, lead);
  s.test_iteration = tested_iteration;
  restore_sync();
}

// From here on the model follows the rounds of a log.
void Solver::Impl::follow_log() {
  const auto log = find_replay_log(options.replay);
  side->model =
      std::make_unique<Replay>(std::move(side->model), config->params().message("sync_param"),
                               SyncSetup{options.workers, momentum(), type}, read_replay_log(log),
                               log.string(), lr_search != nullptr);
}

// The optimizer's state is that of the slice from here on.
void Solver::Impl::slice_history(size_t begin, size_t end) {
  const auto blocks = static_cast<size_t>(optimizer->histories());
  if (blocks == 0 || end - begin == history.size() / blocks) return;
  const size_t stride = history.size() / blocks;
  std::vector<float> slice;
  for (size_t b = 0; b < blocks; ++b) {
    const auto from = history.begin() + static_cast<int64_t>(b * stride + begin);
    slice.insert(slice.end(), from, from + static_cast<int64_t>(end - begin));
  }
  history = std::move(slice);
}

bool Solver::Impl::resumes_sync() const {
  return resumed_sync.model == config->params().message("sync_param").get_string("model") &&
         static_cast<int>(resumed_sync.workers.size()) == options.workers;
}

// Of the slice. The number of servers may be another than that of the run that was saved.
void Solver::Impl::restore_own_momenta() {
  ServerSide& s = *side;
  if (!resumes_sync()) return;
  for (int w = 0; w < options.workers; ++w) {
    const std::vector<float>& momentum = resumed_sync.workers[w].momentum;
    if (momentum.empty()) continue;
    KINET_CHECK(momentum.size() == s.layout.floats,
                "{}: the momentum of worker {} has {} numbers, the net has {}", resumed_from, w,
                momentum.size(), s.layout.floats);
    const auto from = momentum.begin() + static_cast<int64_t>(s.layout.begin(options.server));
    const std::span<float> to = s.shard->own_momentum(w);
    std::copy_n(from, to.size(), to.begin());
  }
}

// The state of a run with servers goes on where every worker was. Of one without, or with another
// number of workers, only weights, history and iteration go on.
void Solver::Impl::restore_sync() {
  ServerSide& s = *side;
  const SyncExtras& saved = resumed_sync;
  std::vector<int64_t> batches(options.workers, iteration);
  double start = static_cast<double>(iteration);
  if (resumes_sync()) {
    for (int w = 0; w < options.workers; ++w) batches[w] = saved.workers[w].next_batch;
    if (!saved.state.empty()) s.model->restore(saved.state);
    start = saved.iteration;
  } else if (!resumed_from.empty()) {
    observer.on_note(fmt::format(
        "{}: saved by {}; its weights and history go on, every worker begins at mini-batch {}",
        resumed_from,
        saved.model.empty() ? "a run without servers"
                            : fmt::format("{} with {} workers", saved.model, saved.workers.size()),
        iteration));
  }
  for (const std::string& lost : {s.shard->not_saved(), s.compress.not_saved()}) {
    if (resumed_from.empty() || lost.empty()) continue;
    observer.on_note(fmt::format("{} does not hold {}", resumed_from, lost));
  }
  s.lead->start_at(start, saved.round, batches);
}

void Solver::Impl::save_sync(SyncExtras& out) {
  const ServerSide& s = *side;
  std::vector<std::vector<uint64_t>> searches;
  for (const WorkerBook& book : s.lead->books()) {
    searches.emplace_back(book.search.begin(), book.search.end());
  }
  take_search_words(searches);
  out.model = config->params().message("sync_param").get_string("model");
  out.iteration = s.lead->iteration();
  out.round = s.lead->round().number;
  out.state = s.model->state();
  for (int w = 0; w < options.workers; ++w) {
    WorkerExtras worker;
    worker.next_batch = s.lead->books()[w].first_unused;
    worker.momentum = s.whole.own_momentum[w];
    out.workers.push_back(std::move(worker));
  }
}

void Solver::Impl::gather_state() {
  if (side == nullptr || side->lead == nullptr) return;
  ServerSide& s = *side;
  if (s.gathered_round == s.lead->round().number) return;
  s.whole = s.gather->collect(train->parameter_arena());
  s.gathered_round = s.lead->round().number;
}

std::span<const float> Solver::Impl::whole_history() const {
  return side == nullptr ? host_history() : std::span<const float>(side->whole.history);
}

FinishRecord Solver::Impl::serve(SolverControl& control) {
  if (options.server > 0) return serve_slice(control);
  started = now();
  observer.on_start(start_record());
  side->lead->wait_for_workers([&] { return control.stop || control.stop_now; });
  std::string reason;
  side->first_iteration = iteration;
  try {
    while (reason.empty()) lead_on(control, reason);
  } catch (const Error& error) {
    save_what_there_is(error);
  }
  train_seconds = now() - (side->displayed < 0 ? started : side->last_display);
  side->lead->hold(true);
  if (reason != "interrupted") {
    finish_shared_test();
    if (tested_iteration != iteration && !tests.empty()) start_shared_test();
    finish_shared_test();
  }
  side->lead->stop_workers(iteration, [&] { return control.stop_now.load(); });
  for (const std::string& line : worker_lines(side->lead->books())) observer.on_note(line);
  if (!control.stop_now) gather_state();  // for a last snapshot, and who uses this net later
  const FinishRecord end = finish(control, reason);
  side->lead->stop_servers();
  return end;
}

// When no worker is left the lead still has the weights. After other errors they may be worth
// nothing.
void Solver::Impl::save_what_there_is(const Error& error) {
  if (side->lead->live() == 0 && settings.snapshot_after_train && snapshot_tried != iteration) {
    try {
      snapshot_or_warn();
    } catch (const Error&) {  // weights that are not finite, a server that is lost
    }
  }
  fail_runtime("{}\n  last snapshot: {}", error.what(),
               last_snapshot.empty() ? "none" : last_snapshot);
}

void Solver::Impl::lead_on(SolverControl& control, std::string& reason) {
  Lead& lead = *side->lead;
  const WishMessage wishes = lead.take_wishes();
  if (wishes.stop) control.stop = true;
  if (wishes.stop_now) control.stop_now = true;
  if (control.stop || control.stop_now) {
    reason = "interrupted";
    return;
  }
  if (control.snapshot.exchange(false) || wishes.snapshot) snapshot_or_warn();
  if (iteration >= end) {
    reason = end_reason;
    return;
  }
  if (side->model->finished()) {
    reason = "the end of the replayed log";
    return;
  }
  if (shared_test_due() && !lead.testing()) start_shared_test();
  lead.hold(shared_test_due());  // the next test waits until this one is known
  const double before = lead.iteration();
  switch (lead.next([&] { return wanted(control); })) {
    case Lead::Event::kRound:
      after_round(before);
      break;
    case Lead::Event::kTestDone:
      finish_shared_test();
      if (early_stop->should_stop()) reason = early_stop->reason();
      break;
    case Lead::Event::kInterrupted:
      break;
  }
}

void Solver::Impl::after_round(double before) {
  const LeadRound& round = side->lead->round();
  loss = round.loss;
  if (round.gradient_norm > 0) norm = round.gradient_norm;  // not measured in every round
  rate = round.learning_rate;
  recent.push_back(loss);
  while (static_cast<int64_t>(recent.size()) > settings.average_loss) recent.pop_front();
  const int64_t from = whole(before), to = whole(round.iteration);
  // Of the weights before the update. A round may make more than one iteration.
  const int64_t shown = settings.display > 0 ? from - from % settings.display : -1;
  if (shown > (side->displayed < 0 ? side->first_iteration - 1 : side->displayed)) {
    iteration = shown;
    train_seconds = now() - (side->displayed < 0 ? started : side->last_display);
    display();
    side->displayed = shown;
    side->last_display = now();
  }
  tell_round(round);
  since_display += to - from;
  iteration = to;
  if (to != from) observer.on_iteration(iteration, loss);
  if (passed(settings.snapshot, from, to)) snapshot_or_warn();
}

bool Solver::Impl::shared_test_due() const {
  if (tests.empty() || settings.test_interval == 0) return false;
  const int64_t last = side->test_iteration;
  if (last < 0) return iteration > 0 || settings.test_initialization;
  return passed(settings.test_interval, last, iteration);
}

// Samples that have come, not those that N workers would have sent: k of them may be enough, and
// some may be dead.
void Solver::Impl::count_samples(const BatchSource& source, DisplayRecord& record) {
  int64_t samples = 0;
  for (const WorkerBook& book : side->lead->books()) samples += book.samples;
  if (train_seconds > 0) {
    record.images_per_second = static_cast<double>(samples - side->samples_shown) / train_seconds;
  }
  side->samples_shown = samples;
  const int64_t before = side->first_iteration * source.batch_size() * batches_an_update();
  record.epoch = static_cast<double>(before + samples) / static_cast<double>(source.items());
}

void Solver::Impl::tell_round(const LeadRound& round) {
  RoundRecord r;
  r.round = round.number;
  r.iteration = round.iteration;
  r.seconds = now() - started;
  r.k = round.plan.k;
  r.live = round.live;
  for (const auto* members : {&round.plan.members, &round.dropped}) {
    for (const PlanMember& m : *members) {
      const auto took = round.seconds.find({m.worker, m.seq});
      r.members.push_back({m.worker, m.seq, m.weight, m.lag, m.rate * round.learning_rate,
                           use_name(m.use), took == round.seconds.end() ? 0 : took->second,
                           m.steps});
    }
  }
  r.terms = round.plan.terms;
  r.loss = round.loss;
  r.waiting = side->lead->take_waiting();
  r.dropped = side->lead->take_dropped();
  r.service = round.service;
  r.note = round.plan.note;
  observer.on_round(r);
}

void Solver::Impl::start_shared_test() {
  side->test_iteration = iteration;
  side->test_began = now();
  side->lead->start_test(iteration);
}

// Waits for it when it is not done yet. A share whose worker was lost is scored here, at the newest
// weights when the server has gone on meanwhile.
void Solver::Impl::finish_shared_test() {
  Lead& lead = *side->lead;
  if (!lead.testing()) return;
  while (lead.next([] { return false; }) != Lead::Event::kTestDone) {
  }
  const int shares = lead.test_shares();
  const std::vector<std::vector<double>> results = lead.take_test_results();
  const auto missing = [](const std::vector<double>& sums) { return sums.empty(); };
  if (std::any_of(results.begin(), results.end(), missing)) gather_state();
  std::vector<TestSums> sums(tests.size());
  for (int share = 0; share < shares; ++share) {
    std::span<const double> numbers(results[share]);
    for (size_t i = 0; i < tests.size(); ++i) {
      if (!numbers.empty()) {
        sums[i].merge(TestSums::unpack(numbers));
        continue;
      }
      note("testing in place of a lost worker", true);
      const TestPlan plan{static_cast<int>(i), side->test_iteration, test_batches[i]};
      sums[i].merge(*score_share(*tests[i], plan, {share, shares}, context(Phase::kTest, 0), {}));
    }
  }
  for (size_t i = 0; i < tests.size(); ++i) {
    const TestPlan plan{static_cast<int>(i), side->test_iteration, test_batches[i]};
    TestRecord record = make_test_record(*tests[i], plan, sums[i]);
    record.at = side->test_began - started;
    record.seconds = now() - side->test_began;
    early_stop->observe(record);
    observer.on_test(record);
  }
  tested_iteration = side->test_iteration;
}

FinishRecord Solver::Impl::serve_slice(const SolverControl& control) {
  ServerSide& s = *side;
  const double timeout = config->params().message("comm_param").get_double("wait_timeout");
  bool going = true;
  while (going) {
    comm->wait_until(
        [&] {
          return s.rank->has_command() || comm->state(0) != PeerState::kAlive || control.stop_now;
        },
        timeout, "a command of the lead");
    bool has = false;
    comm->locked([&] { has = s.rank->has_command(); });
    if (!has) {
      if (control.stop_now) break;
      fail_runtime("the lead server is lost: {}", comm->first_loss());
    }
    const Command command = s.rank->take_command();
    if (command.head.gather != 0) {
      s.gather->put_slice(command);
      continue;
    }
    s.rank->execute(command);
    going = command.head.stop == 0;
    if (command.head.applies != 0) iteration = command.head.step;
  }
  FinishRecord record;
  record.iteration = iteration;
  return record;
}

}  // namespace kinet
