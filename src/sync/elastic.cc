#include "src/sync/elastic.h"

#include <fmt/core.h>

#include <algorithm>

#include "src/math/vec.h"

namespace kinet {

std::string ElasticOptions::describe() const {
  const std::string rate =
      rho > 0 ? fmt::format("eta * {:g}", rho) : fmt::format("{:g} / workers", beta);
  return fmt::format("moving rate {}, every {} step{}{}", rate, period, period == 1 ? "" : "s",
                     momentum ? ", with momentum" : ", without momentum");
}

ElasticOptions read_elastic(const Params& p) {
  ElasticOptions options;
  options.beta = p.get_double("easgd_beta");
  options.rho = p.get_double("easgd_rho");
  options.period = p.get_int("easgd_period");
  options.momentum = p.get_bool("easgd_momentum");
  if (!(options.beta > 0 && options.beta <= 2)) {
    fail_at(p.where("easgd_beta"),
            fmt::format("easgd_beta must lie above 0 and at most at 2, where the center diverges; "
                        "got {:g}",
                        options.beta));
  }
  if (!(options.rho >= 0)) {
    fail_at(p.where("easgd_rho"),
            fmt::format("easgd_rho must not be negative, got {:g}", options.rho));
  }
  if (options.period < 1) fail_at(p.where("easgd_period"), "easgd_period must be at least 1");
  return options;
}

void ElasticWorker::set_up(const RuleSetup& setup, size_t floats) {
  WorkerRule::set_up(setup, floats);
  OptimizerSettings settings = setup.settings;
  // Other rules' momentum is a part of them (beta1 of Adam).
  const bool plain = setup.solver_type == "SGD" || setup.solver_type == "Nesterov";
  if (plain && !options_.momentum) settings.momentum = 0;
  optimizer_ = make_optimizer(setup.solver_type, settings);
  history_.assign(floats * static_cast<size_t>(optimizer_->histories()), 0.0F);
}

void ElasticWorker::received(std::span<float> weights, const RuleAnswer& answer) {
  if (!sent_.empty()) {
    const auto a = static_cast<float>(
        options_.moving_rate(answer_.schedule(answer_.iteration), setup().workers));
    const auto n = static_cast<int64_t>(weights.size());
    vec().sub(n, sent_.data(), weights.data(), weights.data());
    vec().axpby(n, 1, next_.data(), -a, weights.data());
  }
  answer_ = answer;
  sent_.assign(weights.begin(), weights.end());
  next_ = sent_;
}

void ElasticWorker::move(std::span<float> weights, std::span<float> gradient, int64_t number) {
  UpdateStep update;
  update.step = ++updates_;
  update.learning_rate = answer_.schedule(answer_.iteration + number - 1);
  update.threads = setup().threads;
  optimizer_->update(setup().segments, update, {weights, gradient, history_});
}

// The gradient of a push that the servers drop stays here; one that is not finite must not.
bool ElasticWorker::step(std::span<float> weights, std::span<float> gradient, double /*loss*/,
                         int64_t number) {
  const bool last = number >= answer_.steps;
  const bool good = vec().all_finite(static_cast<int64_t>(gradient.size()), gradient.data());
  if (!last) {
    if (good) move(weights, gradient, number);
    return false;
  }
  sent_.assign(weights.begin(), weights.end());
  next_ = sent_;
  if (good) move(next_, gradient, number);
  return true;
}

void ElasticWorker::push(std::span<const float> weights, std::span<const float> /*gradient*/,
                         std::span<float> out) {
  std::copy(weights.begin(), weights.end(), out.begin());
}

void ElasticCenter::begin_round() {
  if (!options_.unlocked) read_.assign(theta().begin(), theta().end());
}

void ElasticCenter::apply(const RulePush& push) {
  const std::span<float> center = theta();
  if (options_.unlocked) {
    const bool overlap = last_ >= 0 && last_ != push.worker;
    if (overlap) {
      read_ = before_;
    } else {
      read_.assign(center.begin(), center.end());
    }
    before_.assign(center.begin(), center.end());
    last_ = push.worker;
  }
  const auto a = static_cast<float>(options_.moving_rate(push.rate, setup().workers));
  const auto n = static_cast<int64_t>(center.size());
  vec().sub(n, push.values.data(), read_.data(), push.values.data());
  vec().axpy(n, a, push.values.data(), center.data());
}

void ElasticCenter::publish(std::span<float> out) const {
  if (read_.empty()) return ServerRule::publish(out);
  std::copy(read_.begin(), read_.end(), out.begin());
}

}  // namespace kinet
