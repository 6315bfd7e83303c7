// The default: speed against the harm of late gradients, which is measured from momentum and noise.
//
// Equation:  k        = the largest j whose score is within kSlack of the best
//            score(j) = throughput(j) * mean over the gradients i of 1 / (1 + turn lag_i)
//            turn     = running mean of late_worth.h's
//            lag_i    = (rounds that i is late) * j/N   iterations; 1 - j/N on average
//
// throughput and the lags come from the what-if play of the recent step times (arrival_model.h), so
// a cluster whose fast workers give most of the gradients, and give them early, may have a small k
// where one of equal workers, all of them late by the same time, may not.
//
// What late gradients are worth, and why: late_worth.h.
//   momentum  more of it, or a larger rate, opens the gap: k rises. When the rate falls, k falls.
//   noise     T/(N G2) is that of an iteration's mean gradient. The weights wander by signal and
//             noise alike, but only the signal is progress: seen from the true gradient, the same
//             gap is larger by sqrt(1 + noise). k rises with noise (measured so: docs/k_rules.md).
//   slack     scores are flat near the best; of two equal k the smaller is nearer to divergence.
//
// Where only the k gradients of a round are averaged (play.late_dropped), none that counts is late,
// every round makes a whole step, and k sets its noise, as in rule goodput:
//   score(j) = throughput(j) / j / (1 + T/(j G2))
//
// Switches (k_reads) for ablations: times, gap, noise, or all. Without times the workers are taken
// for alike with exponential step times; without gap it is kTypicalGap; without noise it is 0.
// Reference: kinet's own; that staleness is to be measured as a gap in weights: Barkai et al.,
// "Gap-Aware", ICLR 2020.
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/sync/k_rule.h"
#include "src/sync/late_worth.h"

namespace kinet {
namespace {

constexpr double kSlack = 0.03;         // of the best score
constexpr double kIterations = 4;       // over which turn is averaged: |v| itself needs 1/(1-gamma)
constexpr double kTypicalGap = 0.0133;  // in the middle of the runs of docs/k_rules.md

class MomentumK : public KRule {
 public:
  explicit MomentumK(const Params& p) : half_(positive(p, "k_gap_half")) {
    for (const std::string& what : p.get_strings("k_reads")) {
      const bool all = what == "all";
      if (!all && what != "times" && what != "gap" && what != "noise") {
        fail_at(p.where("k_reads"),
                "k_reads \"" + what + "\" is not known\nhint: known are times, gap, noise, all");
      }
      times_ |= all || what == "times";
      gap_ |= all || what == "gap";
      noise_ |= all || what == "noise";
    }
  }

  static KRuleType describe() {
    KRuleType type;
    type.name = "momentum";
    type.help = "gradients per second against the measured gap and noise";
    type.fields = {
        float_field("k_gap_half", "0.03",
                    "momentum: h, the gap (move of the weights during the lag over their norm) at "
                    "which a late gradient is worth half of one on time; smaller chooses larger k"),
        repeated(string_field("k_reads", "all",
                              "momentum: what it reads, for ablations: times, gap, noise, all"))};
    return type;
  }

  void observe(const KInputs& in) override {
    const double share = static_cast<double>(in.k) / in.live;  // of an iteration
    if (gap_ && !(in.momentum_norm > 0 && in.weight_norm > 0)) return;
    const double turn = turn_per_iteration(gap_of(in), noise_of(in), half_);
    if (!std::isfinite(turn)) return;
    turn_ = turn_ < 0 ? turn : turn_ + (1 - std::exp(-share / kIterations)) * (turn - turn_);
  }

  KProposal propose(const KInputs& in, KTerms& terms) const override {
    const bool measured = in.play.late_dropped ? in.noise_known || !noise_ : turn_ >= 0;
    if (!measured || (times_ && (!in.arrivals || !in.arrivals->known(in.live)))) return {in.k};
    terms.insert(terms.end(),
                 {{"gap", gap_of(in)}, {"relative_noise", noise_of(in)}, {"turn", turn_}});
    const std::vector<KScore> scores = score_all(in);
    const KProposal out = largest_within(kSlack, scores, in.k);
    for (const KScore& score : scores) {
      if (score.k == out.k) terms.emplace_back("score", score.score);
      if (score.k == in.k) terms.emplace_back("score_before", score.score);
    }
    return out;
  }

  std::vector<double> state() const override { return {turn_}; }
  void restore(std::span<const double> state) override {
    KINET_CHECK(state.size() == 1, "the saved state of k_rule momentum has {} numbers, not 1",
                state.size());
    turn_ = state[0];
  }

 private:
  std::vector<KScore> score_all(const KInputs& in) const {
    const ArrivalModel reference = times_ ? ArrivalModel() : exponential_workers(in.live);
    const ArrivalModel& arrivals = times_ ? *in.arrivals : reference;
    const double noise = noise_of(in);
    std::vector<KScore> scores;
    for (const int k : candidate_ks(in.live, in.k)) {
      const double share = static_cast<double>(k) / in.live;
      const Forecast forecast = arrivals.forecast(in.live, k, in.play);
      const double worth =
          in.play.late_dropped ? worth_on_time(share, noise) : worth_late(share, forecast.late);
      scores.push_back({k, forecast.throughput * worth});
    }
    return scores;
  }

  // Of one of the k gradients of a round that are averaged. Without noise to read: all alike.
  double worth_on_time(double share, double noise) const {
    return noise_ ? 1 / (share + noise) : 1;
  }

  // Mean over the gradients; late[r] of them are r rounds late.
  double worth_late(double share, const std::vector<double>& late) const {
    double worth = 0;
    for (size_t r = 0; r < late.size(); ++r) {
      worth += late[r] * late_worth(turn_, share * static_cast<double>(r));
    }
    return worth;
  }

  double gap_of(const KInputs& in) const { return gap_ ? relative_gap(in) : kTypicalGap; }
  double noise_of(const KInputs& in) const { return noise_ ? relative_noise(in) : 0; }

  double half_;  // h
  bool times_ = false, gap_ = false, noise_ = false;
  double turn_ = -1;  // per iteration of lag; -1: nothing measured yet
};

KINET_REGISTER_K_RULE(MomentumK);

}  // namespace
}  // namespace kinet
