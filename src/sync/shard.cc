#include "src/sync/shard.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/math/vec.h"

namespace kinet {
namespace {

bool summed(Use use) { return use == Use::kFresh || use == Use::kDifference; }

}  // namespace

std::vector<ParameterSegment> cut_segments(std::span<const ParameterSegment> segments, size_t begin,
                                           size_t end) {
  std::vector<ParameterSegment> out;
  for (const ParameterSegment& s : segments) {
    const size_t from = std::max(s.offset, begin), to = std::min(s.offset + s.count, end);
    if (from < to) out.push_back({from - begin, to - from, s.lr_mult, s.decay_mult});
  }
  return out;
}

Shard::Shard(const ShardSetup& setup, std::unique_ptr<ServerRule> rule)
    : setup_(setup),
      rule_(make_optimizer(setup.solver_type, setup.settings)),
      own_rule_(make_optimizer("Nesterov", setup.settings)),
      own_arithmetic_(std::move(rule)),
      own_(setup.workers) {
  if (own_arithmetic_ == nullptr) return;
  RuleSetup known;
  known.segments = setup.segments;
  known.settings = setup.settings;
  known.solver_type = setup.solver_type;
  known.workers = setup.workers;
  known.threads = setup.threads;
  known.iter_size = setup.iter_size;
  own_arithmetic_->set_up(
      known, {setup.weights, setup.history, [this](int worker) { return own_momentum(worker); }});
}

// With equal weights the sum is that of a plain all-reduce, bit for bit: the common factor is left
// to the optimizer.
Shard::Mean Shard::sum(const std::vector<Member>& members, bool measure, bool product) {
  const auto n = static_cast<int64_t>(setup_.weights.size());
  sum_ = nullptr;
  sum_scale_ = total_weight_ = 0;
  mean_rate_ = 1;
  double rates = 0;
  double fresh_weight = 0, first_factor = 1;
  for (const Member& m : members) {
    if (m.plan.use != Use::kDrop) total_weight_ += m.plan.weight;
    if (!summed(m.plan.use)) continue;
    differences_ = m.plan.use == Use::kDifference;
    fresh_weight += m.plan.weight;
    rates += m.plan.weight * m.plan.rate;
    const double factor = m.plan.weight * m.plan.rate;
    if (sum_ == nullptr) {
      sum_ = m.gradient;
      first_factor = factor;
    } else if (factor == first_factor) {
      vec().add(n, sum_, m.gradient, sum_);
    } else {
      vec().axpy(n, static_cast<float>(factor / first_factor), m.gradient, sum_);
    }
  }
  Mean out;
  if (sum_ != nullptr) {
    sum_scale_ = first_factor;
    if (!differences_) sum_scale_ /= static_cast<double>(setup_.iter_size);
    if (rates != fresh_weight) mean_rate_ = rates / fresh_weight;
    const double scale = sum_scale_ / mean_rate_ / fresh_weight;
    out.known = true;
    out.squared = std::pow(gradient_norm({sum_, setup_.weights.size()}, setup_.threads) * scale, 2);
    if (product) take_product(sum_, scale, out);
    return out;
  }
  if (!measure && !product) return out;
  int count = 0;
  for (const Member& m : members) {
    if (!m.plan.grouped) continue;
    if (count++ == 0) {
      mean_.assign(m.gradient, m.gradient + n);
    } else {
      vec().add(n, mean_.data(), m.gradient, mean_.data());
    }
  }
  if (count == 0) return out;
  const double scale = 1.0 / count / static_cast<double>(setup_.iter_size);
  out.known = true;
  out.squared = vec().sum_squares(n, mean_.data()) * scale * scale;
  if (product) take_product(mean_.data(), scale, out);
  return out;
}

void Shard::take_product(const float* mean, double scale, Mean& out) {
  const auto n = static_cast<int64_t>(setup_.weights.size());
  if (!last_mean_.empty()) out.product = scale * vec().dot(n, mean, last_mean_.data());
  last_mean_.resize(setup_.weights.size());
  vec().scale(n, static_cast<float>(scale), mean, last_mean_.data());
}

void Shard::apply(const std::vector<Member>& members, int64_t step, double learning_rate,
                  double mean_squared, std::span<float> publication) {
  if (sum_ != nullptr && differences_) apply_difference();
  if (sum_ != nullptr && !differences_) apply_fresh(step, learning_rate, mean_squared);
  apply_rule(members, learning_rate);
  const auto late = [](const Member& m) {
    return m.plan.use == Use::kOrdered || m.plan.use == Use::kMomentum;
  };
  const bool last = publishes_weights() && std::none_of(members.begin(), members.end(), late);
  apply_own(members, learning_rate, last ? publication : std::span<float>());
  for (const Member& m : members) {
    if (late(m)) apply_late(m, learning_rate);
  }
  if (!last && !publication.empty()) publish(publication);
}

// theta -= w d
void Shard::apply_difference() {
  vec().axpy(static_cast<int64_t>(setup_.weights.size()), static_cast<float>(-sum_scale_), sum_,
             setup_.weights.data());
}

void Shard::apply_fresh(int64_t step, double rate, double mean_squared) {
  UpdateStep update;
  update.step = step;
  update.learning_rate = rate * mean_rate_;
  update.threads = setup_.threads;
  double scale = sum_scale_ / mean_rate_;
  const double norm = std::sqrt(mean_squared);
  if (setup_.clip > 0 && norm > setup_.clip) scale *= setup_.clip / norm;
  update.gradient_scale = static_cast<float>(scale);
  rule_->update(decayed(total_weight_), update,
                {setup_.weights, {sum_, setup_.weights.size()}, setup_.history});
}

// In the order of the members, which is that of the workers' numbers.
void Shard::apply_rule(const std::vector<Member>& members, double rate) {
  bool begun = false;
  for (const Member& m : members) {
    if (m.plan.use != Use::kRule) continue;
    if (!std::exchange(begun, true)) own_arithmetic_->begin_round();
    const std::span<float> values(m.gradient, setup_.weights.size());
    const double scale = setup_.gradients ? member_scale(m) / m.plan.weight : 1;
    if (scale != 1) {
      vec().scale(static_cast<int64_t>(values.size()), static_cast<float>(scale), values.data(),
                  values.data());
    }
    own_arithmetic_->apply({m.plan.worker, values, m.plan.weight, rate * m.plan.rate, m.plan.lag});
  }
  if (begun) own_arithmetic_->end_round();
}

void Shard::publish(std::span<float> out) const {
  if (publishes_weights()) {
    std::copy(setup_.weights.begin(), setup_.weights.end(), out.begin());
  } else {
    own_arithmetic_->publish(out);
  }
}

void Shard::sent(int worker, std::span<const float> what) {
  if (own_arithmetic_ != nullptr) own_arithmetic_->sent(worker, what);
}

// The rule takes its leave of the momentum while it is still there.
void Shard::forget_momentum(int worker) {
  if (own_arithmetic_ != nullptr) own_arithmetic_->forget(worker);
  own_[worker].clear();
}

// Decay belongs to a full update; a round that is a part of one decays by that part.
std::vector<ParameterSegment> Shard::decayed(double weight) const {
  std::vector<ParameterSegment> out = setup_.segments;
  if (std::abs(weight - 1) < 1e-6) return out;
  for (ParameterSegment& s : out) s.decay_mult *= static_cast<float>(weight);
  return out;
}

double Shard::member_scale(const Member& member) const {
  const double norm = std::sqrt(member.norm_squared);
  const double clipped = setup_.clip > 0 && norm > setup_.clip ? setup_.clip / norm : 1;
  return member.plan.weight * clipped / static_cast<double>(setup_.iter_size);
}

std::span<float> Shard::own_momentum(int worker) {
  if (own_[worker].empty()) own_[worker].assign(setup_.weights.size(), 0.0F);
  return own_[worker];
}

// Nesterov's rule with the worker's own momentum leaves theta where all momenta will have carried
// it: the estimated future weights of DANA (Hakimi et al. 2019). Piece by piece, so that the
// weights are still in the cache when the next member comes, and when they are copied.
void Shard::apply_own(const std::vector<Member>& members, double rate,
                      std::span<float> publication) {
  constexpr size_t kPiece = 65536;  // floats; a few of them fit into a second-level cache
  for (size_t begin = 0; begin < setup_.weights.size(); begin += kPiece) {
    const size_t count = std::min(kPiece, setup_.weights.size() - begin);
    for (const Member& member : members) {
      if (member.plan.use != Use::kOwnMomentum) continue;
      UpdateStep update;
      update.learning_rate = rate * member.plan.rate;
      update.gradient_scale = static_cast<float>(member_scale(member));
      update.threads = setup_.threads;
      own_rule_->update(cut_segments(decayed(member.plan.weight), begin, begin + count), update,
                        {setup_.weights.subspan(begin, count),
                         {member.gradient + begin, count},
                         own_momentum(member.plan.worker).subspan(begin, count)});
    }
    if (publication.empty()) continue;
    std::copy_n(setup_.weights.data() + begin, count, publication.data() + begin);
  }
}

// Equation, for a gradient of weight w that is tau updates late (ordered momentum, after Shi, Yang
// and Li 2024, learning rate inside):
//   v += m^tau eta w g,   theta -= (1 - m^(tau+1)) / (1 - m) eta w g
// which is where both would be had it been on time. kMomentum leaves the second part out.
void Shard::apply_late(const Member& member, double rate) {
  const double m = setup_.settings.momentum;
  const double kept = std::pow(m, member.plan.lag);
  double moved = 0;
  for (int i = 0; i <= member.plan.lag; ++i) moved += std::pow(m, i);
  for (const ParameterSegment& s : setup_.segments) {
    const double step = rate * member.plan.rate * s.lr_mult * member_scale(member);
    const auto n = static_cast<int64_t>(s.count);
    const float* g = member.gradient + s.offset;
    vec().axpy(n, static_cast<float>(kept * step), g, setup_.history.data() + s.offset);
    if (member.plan.use == Use::kMomentum) continue;
    vec().axpy(n, static_cast<float>(-moved * step), g, setup_.weights.data() + s.offset);
  }
}

Shard::Norms Shard::measure() {
  const auto n = static_cast<int64_t>(setup_.weights.size());
  Norms out;
  out.weights = vec().sum_squares(n, setup_.weights.data());
  std::vector<float> scratch;
  for (const std::vector<float>& own : own_) {
    if (own.empty()) continue;
    if (scratch.empty()) scratch.assign(setup_.weights.size(), 0.0F);
    vec().add(n, own.data(), scratch.data(), scratch.data());
  }
  const float* momentum = scratch.empty() ? setup_.history.data() : scratch.data();
  if (!setup_.history.empty() || !scratch.empty()) out.momentum = vec().sum_squares(n, momentum);
  if (!last_.empty()) {
    scratch.resize(setup_.weights.size());
    vec().sub(n, setup_.weights.data(), last_.data(), scratch.data());
    out.moved = vec().sum_squares(n, scratch.data());
  }
  last_.assign(setup_.weights.begin(), setup_.weights.end());
  return out;
}

}  // namespace kinet
