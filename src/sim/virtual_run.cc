// Set-up, the loop, and the servers of a virtual run. Workers: virtual_run_workers.cc.
#include "src/sim/virtual_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/math/vec.h"
#include "src/sync/server_rank.h"
#include "src/sync/sync_fields.h"

namespace kinet {
namespace {

constexpr int kUpdatePasses = 5;  // g, theta, v read; theta, v written
constexpr int kSumPasses = 3;
constexpr int kPublishPasses = 2;
constexpr int kNormPasses = 6;

int64_t whole(double iteration) { return static_cast<int64_t>(std::floor(iteration)); }

bool passed(int64_t interval, double before, double after) {
  return interval > 0 && whole(before) / interval != whole(after) / interval;
}

// Sums of weights come out whole where they should be.
double settled(double iteration) {
  const double near = std::round(iteration);
  return std::abs(iteration - near) < 1e-6 ? near : iteration;
}

}  // namespace

VirtualRun::VirtualRun(Problem& problem, const VirtualSpec& spec, SolverObserver* observer)
    : problem_(problem), spec_(spec), books_(spec_, observer), lanes_(spec.lanes) {}

VirtualRun::~VirtualRun() = default;

void VirtualRun::set_up() {
  const Params solver = spec_.config->params(), sync = solver.message("sync_param");
  KINET_CHECK(spec_.workers >= 1, "a virtual cluster needs at least one worker");
  if (solver.message("lr_search_param").get_enum("method") != "none") {
    fail_at(solver.where("lr_search_param"),
            "a cluster profile knows no learning-rate search\nhint: leave lr_search_param away, or "
            "--cluster");
  }
  servers_ = server_count(sync);
  floats_ = problem_.floats();
  bytes_ = (floats_ + problem_.buffers()) * sizeof(float);
  const Params comm = solver.message("comm_param");
  overlap_ = comm.get_bool("overlap");
  bucket_ = static_cast<uint64_t>(comm.get_int("bucket_bytes"));
  Diagnostics diagnostics;
  policy_ = read_lr_policy(solver, diagnostics);
  diagnostics.throw_if_any();
  policy_.max_iter = spec_.schedule_end > 0 ? spec_.schedule_end : spec_.end;

  SyncSetup setup;
  setup.workers = spec_.workers;
  setup.momentum = solver.get_double("momentum");
  setup.solver_type = solver.get_string("type");
  setup.floats = floats_;
  model_ = make_sync_model(sync, setup);

  weights_.resize(floats_ + problem_.buffers());
  const std::span<float> all(weights_);
  problem_.start(all.first(floats_), all.subspan(floats_));
  ShardSetup shard;
  shard.weights = all.first(floats_);
  shard.segments = problem_.segments();
  shard.solver_type = setup.solver_type;
  shard.settings = read_rule(solver);
  shard.clip = solver.get_double("clip_gradients");
  shard.workers = spec_.workers;
  history_.assign(
      floats_ * static_cast<size_t>(make_optimizer(shard.solver_type, shard.settings)->histories()),
      0.0F);
  shard.history = history_;
  rule_setup_.segments = shard.segments;
  rule_setup_.settings = shard.settings;
  rule_setup_.solver_type = shard.solver_type;
  rule_setup_.workers = spec_.workers;
  compress_ = read_compress(solver, spec_.workers);
  compress_.leave_out(shard);
  std::unique_ptr<ServerRule> rule = model_->make_server_rule();
  if (rule != nullptr) passes_ = rule->passes();
  peers_.resize(spec_.workers);
  for (int w = 0; w < spec_.workers; ++w) equip(w);
  shard.gradients = peers_[0].rule == nullptr;
  shard_ = std::make_unique<Shard>(shard, std::move(rule));
  set_up_messages(comm.get_bool("packed"));
  link_ = std::make_unique<LinkModel>(spec_.cluster.link, rank_of(spec_.workers));
  knows_ = {&problem_, spec_.workers, shard.clip,
            [this](int64_t i) { return learning_rate(policy_, i); }};
  model_->start_at(0, std::vector<int64_t>(spec_.workers, 0));
  books_.start(problem_, policy_.policy, solver.get_string("type"), floats_);
}

bool VirtualRun::ended() const {
  return !reason_.empty() || iteration_ >= static_cast<double>(spec_.end);
}

VirtualResult VirtualRun::run() {
  set_up();
  tests_ = spec_.config->params().get_int("test_interval") > 0;
  if (tests_ && spec_.config->params().get_bool("test_initialization")) test();
  for (int w = 0; w < spec_.workers; ++w) join(w);
  for (const ClusterEvent& e : spec_.cluster.events) {
    if (e.worker >= spec_.workers) continue;
    at(e.at, [this, e] { e.kind == ClusterEvent::Kind::kJoin ? join(e.worker) : leave(e.worker); });
  }
  at(0, [this] { look(); });
  while (!ended()) {
    if (events_.empty()) {
      KINET_CHECK(model_->live() == 0, "{} workers wait for each other at version {}",
                  model_->live(), version_);
      fail_with("no worker is left");
      break;
    }
    if (events_.next_time() > spec_.max_seconds) {
      now_ = spec_.max_seconds;
      reason_ = "max_seconds";
      break;
    }
    if (spec_.stop != nullptr && *spec_.stop) {
      reason_ = "interrupted";
      break;
    }
    now_ = events_.next_time();
    events_.pop()();
  }
  if (reason_.empty()) reason_ = "max_iter";
  if (tests_ && !books_.result.diverged && tested_ != version_) test();
  books_.finish(now_, iteration_, reason_);
  VirtualResult out = std::move(books_.result);
  out.weights.assign(weights_.begin(), weights_.begin() + static_cast<int64_t>(floats_));
  return out;
}

void VirtualRun::fail_with(const std::string& reason) {
  if (reason_.empty()) reason_ = reason;
}

void VirtualRun::equip(int worker) {
  Peer& peer = peers_[worker];
  peer.rule = model_->make_worker_rule();
  if (peer.rule != nullptr) peer.rule->set_up(rule_setup_, floats_);
  if (!compress_.any()) return;
  const SyncLayout layout{servers_, spec_.workers, floats_, 0};
  peer.compressor =
      std::make_unique<PushCompressor>(compress_, layout, rule_setup_, spec_.seed, worker);
}

void VirtualRun::join(int worker) {
  Peer& peer = peers_[worker];
  if (peer.alive) return;
  ++peer.life;
  peer.alive = true;
  peer.waits_since = now_;
  if (peer.life > 1) {
    // A successor knows nothing of the one before it, which may still be computing in a lane.
    if (peer.rule != nullptr && peer.last_task) lanes_.wait(peer.last_task);
    peer.last_task = nullptr;
    peer.loss_known = false;
    peer.free_at = now_;
    equip(worker);
    resets_.push_back(worker);
    news_ += fmt::format("{}worker {} joins", news_.empty() ? "" : "; ", worker);
  }
  inbox_.push_back([this, worker] { model_->on_worker(worker, true); });
  look();
}

void VirtualRun::leave(int worker) {
  Peer& peer = peers_[worker];
  if (!peer.alive) return;
  peer.alive = false;
  ++peer.life;
  if (peer.last_task !=
      nullptr) {  // what is being computed uses the rule, which a successor renews
    lanes_.drop(peer.last_task);
    lanes_.wait(peer.last_task);
    peer.last_task = nullptr;
  }
  if (peer.computing != nullptr) {
    peer.next_batch += peer.computing->steps;
    peer.computing = nullptr;
  }
  resets_.push_back(worker);
  news_ += fmt::format("{}worker {} lost", news_.empty() ? "" : "; ", worker);
  inbox_.push_back([this, worker] { model_->on_worker(worker, false); });
  if (tree_) sum_by_tree();
  look();
}

// The servers have nothing else to do: they take what has come, and carry out what the model plans.
void VirtualRun::look() {
  if (looking_ || now_ < server_free_) return;
  looking_ = true;
  while (!ended()) {
    while (!inbox_.empty()) {
      const Call call = std::move(inbox_.front());
      inbox_.pop_front();
      call();
    }
    if (model_->live() == 0) break;
    const std::optional<Plan> plan = model_->next(now_);
    if (!plan) break;
    const double cost = commit(*plan);
    if (cost <= 0) continue;
    server_free_ = now_ + cost;
    at(server_free_, [this] { look(); });
    break;
  }
  looking_ = false;
}

double VirtualRun::commit(const Plan& plan) {
  double cost = 0;
  const double before = iteration_;
  for (const int worker : std::exchange(resets_, {})) shard_->forget_momentum(worker);
  if (!plan.members.empty()) {
    Taken taken = take(plan);
    if (plan.applies()) {
      cost = fetch(taken) + apply(taken);
      record(plan, taken, cost);
    }
  }
  if (!plan.answer.empty() && servers_ > 0) {
    cost += spec_.cluster.server.seconds(bytes_, kPublishPasses) / servers_;
  }
  const double spread = tree_ && !plan.answer.empty() ? tree_seconds(false) : 0;
  for (const int worker : plan.answer) {
    cost += bring(worker);
    answer(worker, now_ + cost + spread);
  }
  for (const int worker : plan.cancel) cancel(worker, now_ + cost);
  model_->committed(plan);
  books_.result.server_seconds += servers_ > 0 ? cost : 0;
  if (plan.applies()) after_round(before);
  return cost;
}

// The members' pushes leave the servers' memory, in the order of the workers.
VirtualRun::Taken VirtualRun::take(const Plan& plan) {
  std::vector<PlanMember> members = plan.members;
  std::sort(members.begin(), members.end(), [](const PlanMember& a, const PlanMember& b) {
    return std::pair(a.worker, a.seq) < std::pair(b.worker, b.seq);
  });
  Taken out;
  const bool applies = plan.applies();
  for (const PlanMember& m : members) {
    auto& held = peers_[m.worker].held;
    const auto it =
        std::find_if(held.begin(), held.end(), [&](const PushPtr& p) { return p->seq == m.seq; });
    KINET_CHECK(it != held.end(), "push {} of worker {} is not there", m.seq, m.worker);
    const PushPtr push = *it;
    held.erase(it);
    if (!applies) dropped_.push_back(m);
    if (m.use == Use::kDrop) continue;
    out.members.push_back({m, push->values.data(), push->norm_squared});
    out.weight += m.weight;
    out.loss += m.weight * push->loss;
    out.iterations += m.weight * static_cast<double>(push->steps);
    out.samples += push->steps * problem_.batch_size();
    out.pushes.push_back(push);
  }
  return out;
}

// RMSE between the weights that a push was computed at and those it is applied to: the gap of DANA.
double VirtualRun::gap(const Push& push) const {
  double squares = 0;
  for (size_t i = 0; i < floats_; ++i) {
    const double d = double{weights_[i]} - double{(*push.at)[i]};
    squares += d * d;
  }
  return std::sqrt(squares / static_cast<double>(floats_));
}

double VirtualRun::apply(Taken& taken) {
  int passes = 0, fresh = 0;
  std::vector<std::pair<double, const float*>> buffers;
  for (size_t i = 0; i < taken.members.size(); ++i) {
    const PlanMember& m = taken.members[i].plan;
    fresh += m.use == Use::kFresh ? 1 : 0;
    passes += m.use == Use::kRule ? passes_ : m.use == Use::kFresh ? kSumPasses : kUpdatePasses;
    if (m.use != Use::kMomentum) {
      buffers.emplace_back(m.weight, taken.pushes[i]->values.data() + floats_);
    }
    if (compress_.any()) passes += peers_[m.worker].compressor->decode_passes();
    if (!spec_.measure_gap) continue;
    const double moved = gap(*taken.pushes[i]);
    books_.gap(moved);
    taken.gap += moved / static_cast<double>(taken.members.size());
  }
  if (tree_) passes /= static_cast<int>(taken.members.size());  // one sum comes
  if (fresh > 0) passes += kUpdatePasses;
  const bool norms = model_->wants_norms(version_ + 1), product = model_->wants_product();
  const int64_t iteration = whole(iteration_);
  rate_ = learning_rate(policy_, iteration);
  facts_ = {};
  const Shard::Mean mean = shard_->sum(taken.members, norms, product);
  shard_->apply(taken.members, iteration + 1, rate_, mean.squared);
  merge_buffers(buffers, std::span<float>(weights_).subspan(floats_));
  iteration_ = settled(iteration_ + taken.iterations);
  ++version_;
  published_ = nullptr;
  facts_.mean_known = mean.known;
  facts_.mean_squared = mean.squared;
  facts_.product_known = product && version_ > 1;
  facts_.product = mean.product;
  facts_.norms = norms;
  if (norms) {
    passes += kNormPasses;
    measure();
  }
  const ServerCosts& server = spec_.cluster.server;
  if (servers_ == 0) {
    books_.all_reduced(model_->live(), bytes_);
    return all_reduce_seconds() + server.seconds(bytes_, kUpdatePasses);
  }
  const double first = server.seconds(bytes_, passes);
  const size_t others = tree_ ? 0 : taken.members.size() - 1;
  return (first + server.per_push * static_cast<double>(others)) / servers_;
}

void VirtualRun::measure() {
  const Shard::Norms part = shard_->measure();
  facts_.momentum_norm = std::sqrt(part.momentum);
  facts_.weight_norm = std::sqrt(part.weights);
  const double since = iteration_ - measured_at_;
  facts_.step_norm = since > 0 ? std::sqrt(part.moved) / since : 0;
  measured_at_ = iteration_;
}

void VirtualRun::record(const Plan& plan, const Taken& taken, double cost) {
  facts_.round = version_;
  facts_.iteration = iteration_;
  facts_.service_seconds = cost / static_cast<double>(plan.members.size());
  facts_.rate = rate_;
  facts_.loss = taken.loss / taken.weight;
  RoundRecord r;
  r.round = version_;
  r.iteration = iteration_;
  r.seconds = now_;
  r.k = plan.k;
  r.live = model_->live();
  dropped_.insert(dropped_.begin(), plan.members.begin(), plan.members.end());
  for (const PlanMember& m : std::exchange(dropped_, {})) {
    r.members.push_back(
        {m.worker, m.seq, m.weight, m.lag, m.rate * rate_, use_name(m.use), 0, m.steps});
    r.dropped += m.use == Use::kDrop ? 1 : 0;
  }
  r.terms = plan.terms;
  if (spec_.measure_gap) r.terms.emplace_back("measured_gap", taken.gap);
  r.loss = facts_.loss;
  r.note = plan.note;
  if (!news_.empty()) r.note += (r.note.empty() ? "" : "; ") + std::exchange(news_, "");
  books_.round(std::move(r), taken.samples, static_cast<int64_t>(taken.members.size()));
}

void VirtualRun::after_round(double before) {
  model_->measured(facts_);
  const Params solver = spec_.config->params();
  if (passed(solver.get_int("display"), before, iteration_)) {
    books_.display(whole(iteration_), now_, facts_.loss, rate_, std::sqrt(facts_.mean_squared));
  }
  if (passed(solver.get_int("test_interval"), before, iteration_)) test();
  if (model_->finished()) fail_with("the model has finished");
}

// The clock does not see it: no strategy tests more than another.
void VirtualRun::test() {
  tested_ = version_;
  const std::span<const float> all(weights_);
  if (!vec().all_finite(static_cast<int64_t>(all.size()), all.data())) {
    books_.result.diverged = true;
    fail_with("weights that are not finite");
    return;
  }
  const ProblemScore score = problem_.test(0, all.first(floats_), all.subspan(floats_));
  books_.test(now_, iteration_, score);
  if (score.accuracy >= spec_.stop_at) fail_with("the target is reached");
}

}  // namespace kinet
