// What the two rules made of the norm test share.
#pragma once

#include "src/sync/k_rule.h"

namespace kinet {

inline Field norm_theta_field() {
  return float_field("k_theta", "0.9",
                     "norm, norm_momentum: share of its length by which the mean gradient may be "
                     "off; smaller asks for a larger k");
}

// The smallest k for which `noise_left` T / k <= Theta^2 G2. When the signal drowns (G2 <= 0) that
// is N; while nothing is known it is the present k.
inline KProposal norm_test_k(const KInputs& in, double theta, double noise_left, KTerms& terms) {
  KProposal out;
  out.k = in.k;
  if (!in.noise_known) return out;
  out.k = in.live;
  if (in.signal <= 0) return out;
  const double k = noise_left * in.noise / (theta * theta * in.signal);
  terms.emplace_back("k_of_test", k);
  out.k = ceil_k(k, in.live);
  return out;
}

}  // namespace kinet
