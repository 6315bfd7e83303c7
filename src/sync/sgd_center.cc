#include "src/sync/sgd_center.h"

#include "src/math/vec.h"

namespace kinet {

void SgdCenter::set_up(const RuleSetup& setup, const RuleSlice& slice) {
  ServerRule::set_up(setup, slice);
  OptimizerSettings settings = setup.settings;
  const bool plain = setup.solver_type == "SGD" || setup.solver_type == "Nesterov";
  if (plain && !momentum_) settings.momentum = 0;
  optimizer_ = make_optimizer(setup.solver_type, settings);
}

void SgdCenter::apply(const RulePush& push) {
  const auto n = static_cast<int64_t>(theta().size());
  if (unlocked_) {
    if (last_ >= 0 && last_ != push.worker) {
      missing_.swap(update_);
    } else {
      missing_.clear();
    }
    update_.assign(theta().begin(), theta().end());
    last_ = push.worker;
  }
  UpdateStep update;
  update.step = ++updates_;
  update.learning_rate = push.rate * push.weight;
  update.threads = setup().threads;
  optimizer_->update(setup().segments, update, {theta(), push.values, history()});
  if (unlocked_) vec().sub(n, update_.data(), theta().data(), update_.data());
}

void SgdCenter::publish(std::span<float> out) const {
  if (missing_.empty()) return ServerRule::publish(out);
  vec().add(static_cast<int64_t>(out.size()), theta().data(), missing_.data(), out.data());
}

}  // namespace kinet
