#include "src/sync/k_rule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace kinet {

void KRule::restore(std::span<const double> state) {
  KINET_CHECK(state.empty(), "a rule for k without a state is given one of {} numbers",
              state.size());
}

std::vector<int> candidate_ks(int live, int present) {
  constexpr int kAll = 8;          // up to here every k
  constexpr double kRatio = 1.25;  // then: a change of k by less is not worth a play
  std::vector<int> out;
  for (int k = 1; k <= std::min(live, kAll); ++k) out.push_back(k);
  for (double k = kAll * kRatio; k < live; k *= kRatio) out.push_back(static_cast<int>(k));
  for (const int left_out : {0, 1, 2, 4}) out.push_back(std::max(1, live - left_out));
  out.push_back(std::clamp(present, 1, live));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

KProposal best_of(const std::vector<KScore>& scores, int present) {
  return largest_within(0, scores, present);
}

KProposal largest_within(double slack, const std::vector<KScore>& scores, int present) {
  double best = 0, now = 0;
  for (const KScore& score : scores) {
    best = std::max(best, score.score);
    if (score.k == present) now = score.score;
  }
  KProposal out;
  out.k = present;
  if (!(best > 0)) return out;
  for (const KScore& score : scores) {
    if (score.score < (1 - slack) * best) continue;
    out.k = score.k;
    out.gain = now > 0 ? std::max(0.0, score.score / now - 1) : -1;
  }
  return out;
}

int ceil_k(double k, int live) {
  constexpr double kRounding = 1e-9;
  if (!(k < live)) return live;
  return std::max(1, static_cast<int>(std::ceil(k - kRounding * std::abs(k))));
}

double positive(const Params& sync_param, const std::string& field) {
  const double value = sync_param.get_double(field);
  if (!(value > 0)) {
    fail_at(sync_param.where(field), fmt::format("{} must be positive, got {:g}", field, value));
  }
  return value;
}

}  // namespace kinet
