// A synchronisation model without servers: events go in, plans come out and are carried out at
// once, and what must hold of every plan is checked.
#pragma once

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/prototxt/fields.h"
#include "src/sync/sync.h"
#include "src/sync/sync_fields.h"

namespace kinet {

// "0.3*0.5~2" is gradient 3 of worker 0 with weight 0.5 and lag 2; "ordered 0.3..." its use unless
// that is fresh; "->0 1" who is answered, "!2" who is to give up.
inline std::string show(const Plan& plan) {
  std::string out;
  for (const PlanMember& m : plan.members) {
    if (m.use != Use::kFresh) out += std::string(use_name(m.use)) + " ";
    out += fmt::format("{}.{}", m.worker, m.seq);
    if (m.use != Use::kDrop) out += fmt::format("*{:.4g}", m.weight);
    if (m.lag > 0) out += fmt::format("~{}", m.lag);
    out += " ";
  }
  if (!plan.answer.empty()) out += fmt::format("->{}", fmt::join(plan.answer, " "));
  if (!plan.cancel.empty()) out += fmt::format("!{}", fmt::join(plan.cancel, " "));
  return out;
}

class SyncScript {
 public:
  using Plans = std::vector<std::string>;

  explicit SyncScript(const std::string& fields, int workers, double momentum = 0.9,
                      const std::string& type = "SGD", size_t floats = 0)
      : workers_(workers) {
    Diagnostics diagnostics;
    node_ = parse_prototxt(fields, "s.prototxt", diagnostics);
    validate(node_, sync_fields(), "sync_param", diagnostics);
    diagnostics.throw_if_any();
    model_ = make_sync_model(Params(&node_, &sync_fields()), {workers, momentum, type, floats});
    worker_.resize(workers);
    model_->start_at(0, std::vector<int64_t>(workers, 0));
  }

  SyncModel& model() { return *model_; }
  double now = 0;
  double loss = 1, seconds = 1;  // of what is pushed
  double norm_squared = 1, mean_squared = 0.5, momentum_norm = 0, step_norm = 0, rate = 0.01;
  double service = 0;

  // All workers begin.
  Plans start() {
    for (int w = 0; w < workers_; ++w) model_->on_worker(w, true), worker_[w].alive = true;
    return pump();
  }
  Plans push(int worker) {
    Peer& peer = worker_[worker];
    KINET_CHECK(peer.computing, "worker {} does not compute", worker);
    peer.computing = false;
    Gradient g;
    g.worker = worker;
    g.seq = peer.seq++;
    g.version = peer.version;
    g.steps = model_->local_steps();
    g.loss = loss;
    g.norm_squared = norm_squared;
    g.seconds = seconds;
    held_.insert({worker, g.seq});
    ++pushes;
    model_->on_gradient(g);
    return pump();
  }
  // It gave up, or its gradient was not finite.
  Plans idle(int worker) {
    worker_[worker].computing = false;
    ++worker_[worker].seq;
    model_->on_idle(worker);
    return pump();
  }
  Plans alive(int worker, bool on) {
    Peer& peer = worker_[worker];
    if (peer.computing) ++peer.seq;
    peer.computing = false;
    peer.alive = on;
    model_->on_worker(worker, on);
    return pump();
  }
  bool computing(int worker) const { return worker_[worker].computing; }
  bool is_alive(int worker) const { return worker_[worker].alive; }
  int64_t version_of(int worker) const { return worker_[worker].version; }
  int64_t pushed(int worker) const { return worker_[worker].seq; }
  size_t unused() const { return held_.size(); }

  int rounds = 0, last_k = 0;
  int64_t pushes = 0;
  double iteration = 0;
  std::vector<Plan> applied;

 private:
  struct Peer {
    bool alive = false, computing = false;
    int64_t seq = 0, version = 0;
  };

  Plans pump() {
    Plans out;
    for (int i = 0;; ++i) {
      KINET_CHECK(i < 1000, "plans without end");
      const std::optional<Plan> plan = model_->next(now);
      if (!plan) break;
      out.push_back(show(*plan));
      carry_out(*plan);
    }
    return out;
  }

  void carry_out(const Plan& plan) {
    EXPECT_TRUE(!plan.members.empty() || !plan.answer.empty()) << "a plan of nothing";
    for (const PlanMember& m : plan.members) {
      EXPECT_EQ(held_.erase({m.worker, m.seq}), 1u) << "used twice: " << show(plan);
      if (m.use != Use::kDrop) {
        EXPECT_GT(m.weight, 0) << show(plan);
        iteration += m.weight * static_cast<double>(model_->local_steps());
      }
    }
    const std::set<int> once(plan.answer.begin(), plan.answer.end());
    EXPECT_EQ(once.size(), plan.answer.size()) << show(plan);
    for (const int w : plan.cancel) EXPECT_TRUE(worker_[w].computing) << show(plan);
    for (const int w : plan.answer) {
      EXPECT_TRUE(worker_[w].alive && !worker_[w].computing) << show(plan);
      int slots = 0;
      for (const auto& [worker, seq] : held_) slots += worker == w;
      EXPECT_LT(slots, model_->slots()) << "no free slot: " << show(plan);
    }
    model_->committed(plan);  // throws when it is not as the contract says
    for (const int w : plan.answer) {
      worker_[w].computing = true;
      worker_[w].version = model_->version();
    }
    if (!plan.applies()) return;
    ++rounds;
    last_k = plan.k;
    applied.push_back(plan);
    RoundFacts facts;
    facts.round = model_->version();
    facts.iteration = iteration;
    facts.mean_known = true;
    facts.mean_squared = mean_squared;
    facts.rate = rate;
    facts.loss = loss;
    facts.service_seconds = service;
    facts.norms = model_->wants_norms(facts.round);
    facts.momentum_norm = momentum_norm;
    facts.step_norm = step_norm;
    facts.weight_norm = 1;
    model_->measured(facts);
  }

  const int workers_;
  ParamNode node_;
  std::unique_ptr<SyncModel> model_;
  std::vector<Peer> worker_;
  std::set<std::pair<int, int64_t>> held_;
};

}  // namespace kinet
