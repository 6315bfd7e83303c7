// The default: speed against the gap that momentum opens, both measured.
//
// Equation:  k = argmax_j  throughput(j) / (1 + c lag(j)),      lag(j) = N/j - 1  rounds
//            c = c0 gap / (1 + noise),   gap = |v| / ((1-gamma) s),   noise = T / (N G2)
// It is goodput_lag with the constant price of lag replaced by a measured one:
//   gap     how many recent steps the weights still move when no gradient comes any more: what a
//           late gradient misses. About 1/(1-gamma) in steady state, more while momentum outruns
//           the steps (a rate that was raised), less after the rate fell.
//   noise   of one iteration's mean gradient, relative to the true one. A late gradient is wrong by
//           the turn of the true gradient over the gap; where the noise of the iteration is larger
//           than the gradient, that error drowns in it and lag costs less. So more noise chooses a
//           SMALLER k where every gradient has weight 1/N whatever k is (look-ahead, ordered).
// Where only the k gradients of a round are averaged (play.late_dropped), k also sets the noise of
// a step, and the score has the factor  (1 + T/(N G2)) / (1 + T/(j G2)):  more noise then chooses a
// LARGER k.
//
// Switches (k_reads) for ablations: times, gap, noise, or all. Without times the workers are taken
// for alike with exponential step times; without gap, gap = 10 (momentum 0.9 in steady state);
// without noise, noise = 0.
// Reference: kinet's own. docs/k_rules.md has the experiments that chose c0.
#include <algorithm>

#include "src/sync/k_rule.h"

namespace kinet {
namespace {

constexpr double kSteadyGap = 10;    // 1/(1 - 0.9)
constexpr double kDrowned = 1e6;     // noise when the signal is lost in it
constexpr double kLargestGap = 1e3;  // of a step that has stopped

class MomentumK : public KRule {
 public:
  explicit MomentumK(const Params& p) : cost_(positive(p, "k_gap_cost")) {
    const std::vector<std::string> reads = p.get_strings("k_reads");
    const auto has = [&](const char* name) {
      return std::any_of(reads.begin(), reads.end(),
                         [&](const std::string& r) { return r == name || r == "all"; });
    };
    times_ = has("times");
    gap_ = has("gap");
    noise_ = has("noise");
    for (const std::string& r : reads) {
      if (r == "times" || r == "gap" || r == "noise" || r == "all") continue;
      fail_at(p.where("k_reads"),
              "k_reads \"" + r + "\" is not known\nhint: known are times, gap, noise, all");
    }
  }

  static KRuleType describe() {
    KRuleType type;
    type.name = "momentum";
    type.help = "gradients per second against the measured gap and noise";
    type.fields = {
        float_field("k_gap_cost", "0.004",
                    "momentum: the share of its worth that a gradient loses with each round it is "
                    "late, for each step of gap"),
        repeated(string_field("k_reads", "all",
                              "momentum: what it reads, for ablations: times, gap, noise, all"))};
    return type;
  }

  KProposal propose(const KInputs& in, KTerms& terms) const override {
    if (times_ && (!in.arrivals || !in.arrivals->known(in.live))) return {in.k};
    const ArrivalModel* arrivals = in.arrivals;
    ArrivalModel alike;
    if (!times_) arrivals = &(alike = exponential_workers(in.live));
    const double gap = gap_of(in), noise = noise_of(in);
    const double c = cost_ * gap / (1 + noise);
    terms.insert(terms.end(), {{"gap", gap}, {"relative_noise", noise}, {"lag_cost", c}});
    std::vector<KScore> scores;
    for (const int k : candidate_ks(in.live, in.k)) {
      const double lag = static_cast<double>(in.live) / k - 1;
      const double worth = in.play.late_dropped ? (1 + noise) / (1 + noise * in.live / k) : 1;
      scores.push_back(
          {k, arrivals->forecast(in.live, k, in.play).throughput * worth / (1 + c * lag)});
    }
    const KProposal out = best_of(scores, in.k);
    for (const KScore& score : scores) {
      if (score.k == out.k) terms.emplace_back("score", score.score);
      if (score.k == in.k) terms.emplace_back("score_before", score.score);
    }
    return out;
  }

 private:
  double gap_of(const KInputs& in) const {
    if (!gap_) return kSteadyGap;
    const double whole = 1 / std::max(1e-3, 1 - in.momentum);
    if (!(in.step_norm > 0)) return whole;  // nothing measured yet: as in steady state
    return std::min(kLargestGap, whole * in.momentum_norm / in.step_norm);
  }

  double noise_of(const KInputs& in) const {
    if (!noise_ || !in.noise_known) return 0;
    if (in.signal <= 0) return kDrowned;
    return std::min(kDrowned, std::max(0.0, in.noise / (in.live * in.signal)));
  }

  double cost_;  // c0
  bool times_ = true, gap_ = true, noise_ = true;
};

KINET_REGISTER_K_RULE(MomentumK);

}  // namespace
}  // namespace kinet
