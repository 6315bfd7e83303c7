#include "src/sync/models/momentum_push.h"

#include "src/base/check.h"
#include "src/math/vec.h"

namespace kinet {

void MomentumPush::set_up(const Params& params, const SyncSetup& setup) {
  EachPush::set_up(params, setup);
  correction_ = params.get_bool("momentum_correction");
  if (setup.solver_type != "SGD" && setup.solver_type != "Nesterov") {
    const std::string name = params.get_string("model");
    fail_at(
        params.where("model"),
        fmt::format("{} has a rule of its own, for type SGD and Nesterov, not {}\nhint: set "
                    "type: \"SGD\", or choose a model that keeps the solver's rule, such as asp",
                    name, setup.solver_type));
  }
}

void CarriedMomentum::set_up(double momentum, bool correction, int count) {
  momentum_ = momentum;
  correction_ = correction;
  last_.assign(count, 0.0);
}

// A rate of 0 moves nothing: it neither ends the momentum nor is it remembered.
float CarriedMomentum::at(int which, double rate) {
  double factor = 1;
  if (correction_ && rate > 0) {
    if (last_[which] > 0) factor = rate / last_[which];
    last_[which] = rate;
  }
  return static_cast<float>(momentum_ * factor);
}

void MomentumRule::set_up(const RuleSetup& setup, const RuleSlice& slice) {
  KINET_CHECK(slice.history.size() >= slice.weights.size(),
              "the momentum has {} floats, the slice {}", slice.history.size(),
              slice.weights.size());
  ServerRule::set_up(setup, slice);
  carried_.set_up(setup.settings.momentum, correction_, std::max(1, setup.workers));
}

void MomentumRule::step(std::span<const float> g, std::span<float> v, float kept,
                        const RulePush& push, double part) const {
  each_segment(part * push.weight * push.rate, [&](size_t offset, size_t count, float eta) {
    const auto n = static_cast<int64_t>(count);
    vec().axpby(n, eta, g.data() + offset, kept, v.data() + offset);
    vec().axpy(n, -1.0F, v.data() + offset, theta().data() + offset);
  });
}

void SentCopies::keep(int worker, std::span<const float> what) {
  const auto index = static_cast<size_t>(worker);
  if (copies_.size() <= index) copies_.resize(index + 1);
  copies_[index].assign(what.begin(), what.end());
}

std::span<const float> SentCopies::of(int worker, std::span<const float> theta) const {
  const auto index = static_cast<size_t>(worker);
  if (index >= copies_.size() || copies_[index].empty()) return theta;
  return copies_[index];
}

void compensate_delay(std::span<float> g, float lambda, std::span<const float> theta,
                      std::span<const float> sent) {
  for (size_t i = 0; i < g.size(); ++i) g[i] += lambda * g[i] * g[i] * (theta[i] - sent[i]);
}

}  // namespace kinet
