#include "src/sync/local_steps.h"

#include "src/math/vec.h"

namespace kinet {

void LocalSteps::set_up(const RuleSetup& setup, size_t floats) {
  WorkerRule::set_up(setup, floats);
  optimizer_ = make_optimizer(setup.solver_type, setup.settings);
  history_.assign(floats * static_cast<size_t>(optimizer_->histories()), 0.0F);
}

void LocalSteps::received(std::span<float> weights, const RuleAnswer& answer) {
  base_.assign(weights.begin(), weights.end());
  answer_ = answer;
}

double LocalSteps::rate(int64_t number) const {
  return answer_.schedule(answer_.iteration + number - 1);
}

void LocalSteps::move(std::span<float> weights, std::span<float> gradient, int64_t number) {
  UpdateStep update;
  update.step = ++updates_;
  update.learning_rate = rate(number);
  update.threads = setup().threads;
  optimizer_->update(setup().segments, update, {weights, gradient, history_});
}

bool LocalSteps::step(std::span<float> weights, std::span<float> gradient, double /*loss*/,
                      int64_t number) {
  move(weights, gradient, number);
  return number >= answer_.steps;
}

void LocalSteps::push(std::span<const float> weights, std::span<const float> /*gradient*/,
                      std::span<float> out) {
  vec().sub(static_cast<int64_t>(base_.size()), base_.data(), weights.data(), out.data());
}

}  // namespace kinet
