// DANA-Zero: every worker has a momentum of its own at the server, and is sent the weights to which
// all momenta will lead until it pushes again, if each worker pushes once meanwhile.
//
// Server, on g of worker i:  v = v_i;  v_i = m v_i + eta g
//                            s += v_i - v            running sum of all v_j: O(d) a push, not O(N
//                            d) theta -= v_i send  theta_hat = theta - m s
// Tests and snapshots are of theta. A worker that is lost takes its momentum out of s; theta stays.
// A worker that stands still leaves its last momentum in s: bounded, but stale.
// Reference: Hakimi, Barkai, Gabel, Schuster, "Taming Momentum in a Distributed Asynchronous
// Environment", arXiv 1907.11612. With one worker it is Nesterov's rule, with theta_hat as weights.
#include "src/sync/models/dana_zero.h"

#include <algorithm>

#include "src/math/vec.h"

namespace kinet {

std::vector<float>& DanaZeroRule::sum() const {
  if (!sum_.empty()) return sum_;
  sum_.assign(theta().size(), 0.0F);
  const auto n = static_cast<int64_t>(sum_.size());
  for (int w = 0; w < setup().workers; ++w) {
    vec().add(n, sum_.data(), own(w).data(), sum_.data());
  }
  return sum_;
}

void DanaZeroRule::apply(const RulePush& push) {
  add_decay(push.values);
  float* s = sum().data();
  float* v = own(push.worker).data();
  float* w = theta().data();
  const float* g = push.values.data();
  const float kept = carried(push.worker, push);
  each_segment(push.weight * push.rate, [=](size_t offset, size_t count, float eta) {
    for (size_t i = offset; i < offset + count; ++i) {
      const float before = v[i];
      v[i] = kept * before + eta * g[i];
      s[i] += v[i] - before;
      w[i] -= v[i];
    }
  });
}

void DanaZeroRule::publish(std::span<float> out) const {
  ServerRule::publish(out);
  vec().axpy(static_cast<int64_t>(out.size()), -momentum(), sum().data(), out.data());
}

// The sum is made anew at its next use, without the lost worker's part and without rounding.
void DanaZeroRule::forget(int worker) {
  std::ranges::fill(own(worker), 0.0F);
  sum_.clear();
}

namespace {

class DanaZero : public MomentumPush {
 public:
  static SyncType describe_type() {
    return {"dana_zero", "as they come; workers compute where all workers' momenta will lead"};
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<DanaZeroRule>(correction());
  }
  std::string describe() const override {
    return "asynchronous, a momentum of each worker, look-ahead of all";
  }
};
KINET_REGISTER_SYNC(DanaZero);

}  // namespace
}  // namespace kinet
