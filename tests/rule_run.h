// Rules of models without servers, workers or a network: answers and pushes by hand, in one slice.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/prototxt/fields.h"
#include "src/sync/sync.h"
#include "src/sync/sync_fields.h"

namespace kinet {

struct RuleRunSetup {
  int workers = 1;
  float momentum = 0.9F, weight_decay = 0;
  Regularization regularization = Regularization::kL2;
  std::vector<ParameterSegment> segments;  // none: one of everything
  std::string solver_type = "SGD";
};

class RuleRun {
 public:
  // `sync`: the fields of sync_param.
  RuleRun(const std::string& sync, const RuleRunSetup& setup, const std::vector<float>& weights)
      : theta(weights), history(weights.size(), 0.0F) {
    Diagnostics diagnostics;
    node_ = parse_prototxt(sync, "s.prototxt", diagnostics);
    validate(node_, sync_fields(), "sync_param", diagnostics);
    diagnostics.throw_if_any();
    model_ = make_sync_model(Params(&node_, &sync_fields()),
                             {setup.workers, setup.momentum, setup.solver_type});
    rule_setup_.segments = setup.segments;
    if (setup.segments.empty()) rule_setup_.segments = {{0, weights.size(), 1, 1}};
    rule_setup_.settings.momentum = setup.momentum;
    rule_setup_.settings.weight_decay = setup.weight_decay;
    rule_setup_.settings.regularization = setup.regularization;
    rule_setup_.solver_type = setup.solver_type;
    rule_setup_.workers = setup.workers;
    begin();
  }
  RuleRun(const RuleRun&) = delete;
  RuleRun& operator=(const RuleRun&) = delete;

  // Rules anew, over the theta, history and own momenta that are there: a run that goes on.
  void begin() {
    rule_ = model_->make_server_rule();
    if (rule_) rule_->set_up(rule_setup_, {theta, history, [this](int w) { return own(w); }});
    worker_rules_.clear();
    for (int w = 0; w < rule_setup_.workers; ++w) {
      worker_rules_.push_back(model_->make_worker_rule());
      if (worker_rules_[w]) worker_rules_[w]->set_up(rule_setup_, theta.size());
    }
  }

  // The newest weights for a worker, which computes at them; `rate` is of the schedule.
  const std::vector<float>& answer(int worker, double rate) {
    std::vector<float>& at = at_[worker];
    at.resize(theta.size());
    if (rule_) {
      rule_->publish(at);
      rule_->sent(worker, at);
    } else {
      at = theta;
    }
    RuleAnswer answer;
    answer.schedule = [rate](int64_t) { return rate; };
    if (worker_rules_[worker]) worker_rules_[worker]->received(at, answer);
    return at;
  }

  void push(int worker, std::vector<float> gradient, double rate, double weight = 1, int lag = 0) {
    if (rule_) {
      rule_->begin_round();
      rule_->apply({worker, gradient, weight, rate, lag});
      rule_->end_round();
      return;
    }
    WorkerRule& of = *worker_rules_[worker];
    KINET_CHECK(of.step(at_[worker], gradient, 0, 1), "worker {} does not push", worker);
    std::vector<float> difference(theta.size());
    of.push(at_[worker], gradient, difference);
    for (size_t i = 0; i < theta.size(); ++i) {
      theta[i] -= static_cast<float>(weight) * difference[i];
    }
  }

  void forget(int worker) { rule_->forget(worker); }
  const SyncModel& model() const { return *model_; }
  const std::vector<float>& at(int worker) { return at_[worker]; }
  std::span<float> own(int worker) {
    owns[worker].resize(theta.size());
    return owns[worker];
  }

  std::vector<float> theta, history;
  std::map<int, std::vector<float>> owns;

 private:
  ParamNode node_;
  std::unique_ptr<SyncModel> model_;
  RuleSetup rule_setup_;
  std::unique_ptr<ServerRule> rule_;
  std::vector<std::unique_ptr<WorkerRule>> worker_rules_;
  std::map<int, std::vector<float>> at_;
};

}  // namespace kinet
