// How noisy one worker's mini-batch gradient is, estimated from norms alone.
//
// With k gradients g_i of the same weights and their mean gbar,
//   m2 = (1/k) sum_i |g_i|^2        q = |gbar|^2
//   T  = k/(k-1) (m2 - q)           the trace of the covariance of one mini-batch gradient
//   G2 = (k q - m2)/(k-1)           |G|^2, the squared norm of the true gradient
// Both are unbiased for every k >= 2. A single round's G2 may be negative, so T and G2 are averaged
// over rounds first and divided afterwards. A round of k gradients has k-1 degrees of freedom and
// weighs that much; the weights fade with exp(-(degrees of freedom since)/horizon):
//   T = sum_r w_r k (m2 - q) / sum_r w_r (k-1),     G2 = sum_r w_r (k q - m2) / sum_r w_r (k-1)
//
// A round of k = 1 has no degree of freedom: it says nothing and changes nothing. While k stays at
// 1 the estimate of the last larger round stands.
//
// Only gradients of the SAME weights may be fed together: others also differ by how far the weights
// have moved between them, and would count as noise. They need not be on time. Where late gradients
// count, few are: of equal workers with k = N/4 every gradient is three rounds late, and those that
// began together still arrive together. So feed each group of two or more gradients of a round that
// have one version (or only the largest group, to save the sums of the others).
//
// Thread safety: none, its owner's thread. Reference: McCandlish et al., "An empirical model of
// large-batch training", 2018, for the two estimators; the weighting over rounds is kinet's own.
#pragma once

#include <span>
#include <vector>

namespace kinet {

class GradientNoise {
 public:
  // `horizon`: degrees of freedom after which a round has faded to 1/e.
  explicit GradientNoise(double horizon = 256) : horizon_(horizon) {}

  // One group: |g_i|^2 of its gradients, and |gbar|^2 of their plain mean. Returns whether the
  // group said something: false for fewer than two gradients or numbers that are not finite.
  bool add(std::span<const double> gradient_norms2, double mean_norm2);

  // Enough was seen to decide with: kEnough degrees of freedom.
  bool known() const { return seen_ >= kEnough; }
  double noise() const { return weight_ > 0 ? noise_ / weight_ : 0; }    // T
  double signal() const { return weight_ > 0 ? signal_ / weight_ : 0; }  // G2; may be <= 0

  // For snapshots: as many numbers every time.
  std::vector<double> state() const { return {noise_, signal_, weight_, seen_}; }
  void restore(std::span<const double> state);

  // The relative error of T is about sqrt(2 / freedom) / sqrt(directions), and a net's gradient
  // has many directions: after eight it is good to some ten per cent, G2 less so.
  static constexpr double kEnough = 8;

 private:
  double horizon_;
  double noise_ = 0, signal_ = 0, weight_ = 0;  // the three faded sums
  double seen_ = 0;                             // degrees of freedom so far
};

}  // namespace kinet
