// A cluster without messages or time: a synchronisation model, the rules that it makes, and workers
// that compute gradients of a quadratic when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/rng.h"
#include "src/sync/sync.h"
#include "src/sync/sync_fields.h"

namespace kinet {

// f(w) = 1/2 sum_i h_i (w_i - m_i)^2, with gradients that carry noise.
struct Quadratic {
  std::vector<double> curvature, minimum;
  double noise = 0;

  static Quadratic of(size_t dimension, double smallest, double noise = 0) {
    Quadratic q;
    q.noise = noise;
    for (size_t i = 0; i < dimension; ++i) {
      const double t =
          dimension > 1 ? static_cast<double>(i) / static_cast<double>(dimension - 1) : 0;
      q.curvature.push_back(smallest + (1 - smallest) * t);
      q.minimum.push_back(i % 2 == 0 ? 1 : -0.5);
    }
    return q;
  }
  double value(std::span<const float> w) const {
    double sum = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      sum += curvature[i] * (w[i] - minimum[i]) * (w[i] - minimum[i]) / 2;
    }
    return sum;
  }
};

class RuleCluster {
 public:
  std::function<double(int64_t)> schedule = [](int64_t) { return 0.1; };
  double seconds = 1, service = 0;  // of a push
  RuleSetup setup;                  // segments: of the whole, unless the test has set some
  std::vector<float> theta;         // of the server

  RuleCluster(const std::string& fields, int workers, const Quadratic& f, float momentum = 0)
      : f_(f), momentum_(momentum) {
    Diagnostics diagnostics;
    node_ = parse_prototxt(fields, "s.prototxt", diagnostics);
    validate(node_, sync_fields(), "sync_param", diagnostics);
    diagnostics.throw_if_any();
    SyncSetup s;
    s.workers = workers;
    s.momentum = momentum;
    s.floats = f.minimum.size();
    model_ = make_sync_model(Params(&node_, &sync_fields()), s);
    theta.assign(f.minimum.size(), 0.0F);
    setup.settings.momentum = momentum;
    setup.workers = workers;
    workers_.resize(static_cast<size_t>(workers));
  }

  void start() {
    if (setup.segments.empty()) setup.segments = {{0, theta.size(), 1, 1}};
    server_ = model_->make_server_rule();
    history_.assign(theta.size(), 0.0F);
    if (server_) {
      server_->set_up(setup, {theta, history_, [this](int w) -> std::span<float> {
                                std::vector<float>& own = workers_[w].own;
                                own.resize(theta.size());
                                return own;
                              }});
    }
    model_->start_at(0, std::vector<int64_t>(workers_.size(), 0));
    for (int w = 0; w < static_cast<int>(workers_.size()); ++w) join(w);
    pump();
  }

  // Mini-batches until the worker's rule says so, and the push.
  void compute(int w) {
    Worker& worker = workers_[w];
    ASSERT_TRUE(worker.computing) << w;
    worker.computing = false;
    std::vector<float> gradient(theta.size()), early(theta.size());
    if (worker.rule && worker.rule->pushes_early()) {
      worker.rule->push(worker.weights, gradient, early);
    }
    double loss = 0;
    int64_t steps = 0;
    for (bool done = false; !done;) {
      ++steps;
      loss += f_.value(worker.weights);
      fill(w, worker.weights, gradient);
      done = worker.rule ? worker.rule->step(worker.weights, gradient, loss, steps)
                         : steps >= worker.steps;
      ASSERT_LE(steps, 100000);
    }
    worker.pushed = gradient;
    if (worker.rule) worker.rule->push(worker.weights, gradient, worker.pushed);
    if (worker.rule && worker.rule->pushes_early()) {
      EXPECT_EQ(worker.pushed, early);
    }
    Gradient g;
    g.worker = w;
    g.seq = worker.seq++;
    g.version = worker.version;
    g.steps = worker.last_steps = steps;
    g.loss = loss / static_cast<double>(steps);
    g.seconds = seconds * static_cast<double>(steps);
    ++pushes;
    model_->on_gradient(g);
    pump();
  }
  // Whoever computes, by chance; `rounds` of them.
  void run(int64_t rounds, uint64_t seed) {
    Rng rng(seed, RngPurpose::kTest, 77);
    const int64_t end = model_->version() + rounds;
    while (model_->version() < end) {
      const int w = static_cast<int>(rng.below(workers_.size()));
      if (workers_[w].computing) compute(w);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  void join(int w) {
    workers_[w].rule = model_->make_worker_rule();
    if (workers_[w].rule) workers_[w].rule->set_up(setup, theta.size());
    workers_[w].alive = true;
    model_->on_worker(w, true);
  }
  void die(int w) {
    workers_[w].alive = workers_[w].computing = false;
    if (server_) server_->forget(w);
    model_->on_worker(w, false);
    pump();
  }

  SyncModel& model() { return *model_; }
  bool computing(int w) const { return workers_[w].computing; }
  const std::vector<float>& weights(int w) const { return workers_[w].weights; }
  const std::vector<float>& pushed(int w) const { return workers_[w].pushed; }
  int64_t steps(int w) const { return workers_[w].last_steps; }
  double value() const { return f_.value(theta); }

  double iteration = 0, now = 0;
  int64_t pushes = 0;
  std::vector<Plan> applied;

 private:
  struct Worker {
    std::unique_ptr<WorkerRule> rule;
    std::vector<float> weights, pushed, own;
    bool alive = false, computing = false;
    int64_t seq = 0, version = 0, steps = 1, last_steps = 0, batches = 0;
  };

  void fill(int w, std::span<const float> at, std::span<float> gradient) {
    Rng rng(9, RngPurpose::kTest, static_cast<uint64_t>(w),
            static_cast<uint64_t>(workers_[w].batches++));
    for (size_t i = 0; i < at.size(); ++i) {
      const double exact = f_.curvature[i] * (at[i] - f_.minimum[i]);
      gradient[i] = static_cast<float>(exact + (f_.noise > 0 ? f_.noise * rng.gaussian() : 0));
    }
  }

  void pump() {
    for (int i = 0; i < 1000; ++i) {
      const std::optional<Plan> plan = model_->next(now);
      if (!plan) return;
      carry_out(*plan);
    }
    FAIL() << "plans without end";
  }

  void carry_out(const Plan& plan) {
    const double rate = schedule(static_cast<int64_t>(iteration));
    std::vector<PlanMember> members = plan.members;
    std::sort(members.begin(), members.end(),
              [](const auto& a, const auto& b) { return a.worker < b.worker; });
    if (server_ && plan.applies()) server_->begin_round();
    for (const PlanMember& m : members) {
      Worker& worker = workers_[m.worker];
      if (m.use == Use::kRule) {
        std::vector<float> values = worker.pushed;
        server_->apply({m.worker, values, m.weight, rate * m.rate, m.lag});
      } else if (m.use == Use::kDifference) {
        for (size_t i = 0; i < theta.size(); ++i) {
          theta[i] -= static_cast<float>(m.weight) * worker.pushed[i];
        }
      } else {
        ASSERT_EQ(m.use, Use::kDrop) << use_name(m.use);
      }
      if (m.use != Use::kDrop) iteration += m.weight * static_cast<double>(worker.last_steps);
    }
    if (server_ && plan.applies()) server_->end_round();
    model_->committed(plan);
    if (plan.applies()) applied.push_back(plan);
    for (const int w : plan.answer) answer(w);
    if (!plan.applies()) return;
    RoundFacts facts;
    facts.round = model_->version();
    facts.iteration = iteration;
    facts.rate = rate;
    facts.loss = value();
    facts.service_seconds = service;
    model_->measured(facts);
  }

  void answer(int w) {
    Worker& worker = workers_[w];
    worker.computing = true;
    worker.version = model_->version();
    worker.steps = model_->local_steps();
    worker.weights = theta;
    if (server_) server_->publish(worker.weights);
    const auto at = static_cast<int64_t>(iteration + 1e-6);
    if (worker.rule) worker.rule->received(worker.weights, {at, worker.steps, schedule});
  }

  const Quadratic f_;
  const float momentum_;
  ParamNode node_;
  std::unique_ptr<SyncModel> model_;
  std::unique_ptr<ServerRule> server_;
  std::vector<float> history_;
  std::vector<Worker> workers_;
};

}  // namespace kinet
