// What all rules of models have in common: segments, weight decay, the plain answer.
#include "src/sync/rule.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/math/vec.h"

namespace kinet {

void ServerRule::set_up(const RuleSetup& setup, const RuleSlice& slice) {
  for (const ParameterSegment& s : setup.segments) {
    KINET_CHECK(s.offset + s.count <= slice.weights.size(),
                "a segment ends at {}, but the slice has {} floats", s.offset + s.count,
                slice.weights.size());
  }
  setup_ = setup;
  slice_ = slice;
}

void ServerRule::publish(std::span<float> out) const {
  std::copy(slice_.weights.begin(), slice_.weights.end(), out.begin());
}

// L2: g += lambda theta;  L1: g += lambda sign(theta);  lambda = part * weight_decay * decay_mult.
void add_weight_decay(const RuleSetup& setup, std::span<const float> theta, double part,
                      std::span<float> values) {
  if (setup.settings.weight_decay == 0) return;
  for (const ParameterSegment& s : setup.segments) {
    const auto lambda = static_cast<float>(part * setup.settings.weight_decay * s.decay_mult);
    if (lambda == 0) continue;
    const float* w = theta.data() + s.offset;
    float* g = values.data() + s.offset;
    if (setup.settings.regularization == Regularization::kL2) {
      vec().axpy(static_cast<int64_t>(s.count), lambda, w, g);
      continue;
    }
    for (size_t i = 0; i < s.count; ++i) {
      g[i] += lambda * (static_cast<float>(w[i] > 0) - static_cast<float>(w[i] < 0));
    }
  }
}

void ServerRule::add_decay(std::span<float> values, double part) const {
  add_weight_decay(setup_, slice_.weights, part, values);
}

void ServerRule::each_segment(double rate,
                              const std::function<void(size_t, size_t, float)>& f) const {
  for (const ParameterSegment& s : setup_.segments) {
    f(s.offset, s.count, static_cast<float>(rate * s.lr_mult));
  }
}

void WorkerRule::set_up(const RuleSetup& setup, size_t floats) {
  setup_ = setup;
  floats_ = floats;
}

}  // namespace kinet
