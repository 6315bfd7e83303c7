// Plans of the model, carried out: the command to all servers, the answers to workers, the books,
// and what was measured. The other half of the lead is in lead.cc.
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/sync/lead.h"

namespace kinet {
namespace {

// Sums of weights come out whole where they should be.
double settled(double iteration) {
  const double whole = std::round(iteration);
  return std::abs(iteration - whole) < 1e-6 ? whole : iteration;
}

}  // namespace

int Lead::slot_of(int worker, int64_t seq) const {
  const auto& slots = peers_[worker].slots;
  const auto it = std::find(slots.begin(), slots.end(), seq);
  KINET_CHECK(it != slots.end(), "gradient {} of worker {} lies in no slot", seq, worker);
  return static_cast<int>(it - slots.begin());
}

void Lead::commit(const Plan& plan) {
  Command command;
  const bool applies = plan.applies();
  const auto iteration = static_cast<int64_t>(std::floor(iteration_));
  command.head.round = round_.number + (applies ? 1 : 0);
  command.head.step = iteration + 1;
  command.head.learning_rate = options_.schedule(iteration);
  command.head.applies = applies ? 1 : 0;
  command.head.measure = applies && model_.wants_norms(command.head.round) ? 1 : 0;
  command.head.product = applies && model_.wants_product() ? 1 : 0;
  for (const PlanMember& m : plan.members) {
    const auto& pushed = pushed_[m.worker];
    const auto g = std::find_if(pushed.begin(), pushed.end(),
                                [&](const GradientMessage& p) { return p.seq == m.seq; });
    KINET_CHECK(g != pushed.end(), "gradient {} of worker {} is not there", m.seq, m.worker);
    command.members.push_back({m, g->norm_squared, slot_of(m.worker, m.seq)});
  }
  std::sort(command.members.begin(), command.members.end(), [](const auto& a, const auto& b) {
    return std::pair(a.plan.worker, a.plan.seq) < std::pair(b.plan.worker, b.plan.seq);
  });
  for (const CommandMember& m : command.members) {
    peers_[m.plan.worker].slots[m.slot] = -1;
  }
  // Before the answers, which name the iteration that follows.
  if (!plan.members.empty()) account(command, plan);
  std::vector<std::pair<int, AnswerMessage>> answers;
  for (const int worker : plan.answer) answers.emplace_back(worker, answer(worker, command));
  command.resets = std::exchange(resets_, {});
  send_command(command);
  const double begin = comm_.now();
  const ServerRank::Result result = server_.execute(command);
  const double service = comm_.now() - begin;
  for (auto& [worker, message] : answers) {
    message.weights = server_.lent(worker, ServerRank::Loan::kAnswer);
    comm_.send(layout_.rank_of(worker), kAnswerKind, bytes_of(message));
  }
  for (const int worker : plan.cancel) {
    // Once: a stopped worker takes no messages, and there may be thousands of rounds a second.
    Peer& peer = peers_[worker];
    if (!peer.computing || std::exchange(peer.cancelled, true)) continue;
    comm_.send(layout_.rank_of(worker), kCancelKind, bytes_of(books_[worker].next_seq));
  }
  model_.committed(plan);
  if (applies) report(command, result, service);
}

AnswerMessage Lead::answer(int worker, Command& command) {
  Peer& peer = peers_[worker];
  const auto slot = std::find(peer.slots.begin(), peer.slots.end(), -1);
  KINET_CHECK(slot != peer.slots.end(), "worker {} is answered but has no free slot", worker);
  peer.slot = static_cast<int>(slot - peer.slots.begin());
  *slot = books_[worker].next_seq;
  peer.computing = true;
  peer.cancelled = false;
  peer.complete = 0;
  peer.seq_tag = put_tag(books_[worker].next_seq);
  peer.answered = comm_.now();
  if (std::exchange(peer.fresh, false)) resets_.push_back(worker);
  command.answers.push_back({{worker, peer.life}, peer.buffer});
  AnswerMessage m;
  m.version = command.head.round;
  m.seq = books_[worker].next_seq;
  m.iteration = static_cast<int64_t>(std::floor(iteration_));
  m.batch = books_[worker].next_batch;
  const int64_t left = std::max<int64_t>(1, options_.end - m.iteration);
  m.steps = peer.steps = std::min(model_.steps_of(worker), left);
  m.learning_rate = options_.schedule(m.iteration);
  m.buffer = peer.buffer;
  m.slot = peer.slot;
  m.k = model_.k();
  return m;
}

void Lead::send_command(const Command& command) {
  if (layout_.servers == 1) return;
  const std::vector<std::byte> bytes = command.pack();
  for (Rank r = 1; r < layout_.servers; ++r) send_parts(comm_, r, kCommandKind, 0, bytes);
}

// Books of a plan that is about to be carried out.
void Lead::account(const Command& command, const Plan& plan) {
  double weight = 0, loss = 0;
  for (const CommandMember& m : command.members) {
    auto& pushed = pushed_[m.plan.worker];
    const auto g = std::find_if(pushed.begin(), pushed.end(),
                                [&](const GradientMessage& p) { return p.seq == m.plan.seq; });
    const bool dropped = m.plan.use == Use::kDrop;
    ++(dropped ? books_[m.plan.worker].dropped : books_[m.plan.worker].applied);
    dropped_ += dropped ? 1 : 0;
    if (command.head.applies == 0) dropped_members_.push_back(m.plan);
    if (!dropped) {
      weight += m.plan.weight;
      loss += m.plan.weight * g->loss;
      iteration_ += m.plan.weight * static_cast<double>(g->steps);
    }
    books_[m.plan.worker].first_unused = g->batch + g->steps;
    books_[m.plan.worker].search = g->search;
    seconds_[{m.plan.worker, m.plan.seq}] =
        g->compute_seconds / static_cast<double>(std::max<int64_t>(1, g->steps));
    pushed.erase(g);
  }
  if (command.head.applies == 0) return;
  iteration_ = settled(iteration_);
  round_.number = command.head.round;
  round_.iteration = iteration_;
  round_.learning_rate = command.head.learning_rate;
  round_.loss = loss / weight;
  round_.time = comm_.now();
  round_.live = model_.live();
  round_.plan = plan;
  round_.dropped = std::exchange(dropped_members_, {});
  round_.seconds = std::exchange(seconds_, {});
  for (const std::string& text : std::exchange(news_, {})) {
    round_.plan.note += (round_.plan.note.empty() ? "" : "; ") + text;
  }
}

void Lead::report(const Command& command, const ServerRank::Result& result, double service) {
  round_.gradient_norm = std::sqrt(result.mean_squared);
  round_.service = service;
  RoundFacts facts;
  facts.round = round_.number;
  facts.iteration = iteration_;
  facts.mean_known = result.mean_known;
  facts.mean_squared = result.mean_squared;
  facts.product_known = command.head.product != 0 && facts.round > 1;
  facts.product = result.product;
  facts.service_seconds = service / static_cast<double>(command.members.size());
  facts.rate = round_.learning_rate;
  facts.loss = round_.loss;
  facts.norms = command.head.measure != 0;
  if (facts.norms) {
    facts.momentum_norm = std::sqrt(result.norms.momentum);
    facts.weight_norm = std::sqrt(result.norms.weights);
    const double passed = iteration_ - measured_at_;
    facts.step_norm = passed > 0 ? std::sqrt(result.norms.moved) / passed : 0;
    measured_at_ = iteration_;
  }
  model_.measured(facts);
}

}  // namespace kinet
