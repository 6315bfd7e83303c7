#include "src/sim/rate_choice.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace kinet {
namespace {

using State = CellOutcome::State;

std::vector<Setting> tuning_settings(const Experiment& experiment) {
  if (experiment.tune_cluster.empty()) return settings_of(experiment);
  std::vector<Setting> out;
  for (const int workers : experiment.workers) out.push_back({-1, workers});
  return out;
}

// Least is best.
auto rank_of(const RateScore& s, bool by_time, bool higher_is_better) {
  const double final = s.final.count == 0 ? HUGE_VAL
                       : higher_is_better ? -s.final.mean
                                          : s.final.mean;
  const int missed = by_time ? s.runs - s.reached : 0;
  const double seconds = by_time && s.reached > 0 ? s.seconds.mean : 0;
  return std::make_tuple(s.bad, missed, seconds, final, s.rate);
}

}  // namespace

RateChoice::RateChoice(const Experiment& experiment) : experiment_(experiment) {
  for (const Setting& setting : tuning_settings(experiment)) {
    for (int s = 0; s < static_cast<int>(experiment.strategies.size()); ++s) {
      Choice choice;
      choice.tuning.strategy = s;
      choice.tuning.setting = setting;
      choice.left = experiment.strategies[static_cast<size_t>(s)].rates;
      choice.tuning.best = choice.left.front();
      choices_.push_back(std::move(choice));
    }
  }
}

// Tuned by time to a target out of a strategy's final figure, that strategy has to run for it.
bool RateChoice::needed(const Choice& choice, int rung) const {
  if (!choice.tuning.problem.empty()) return false;
  if (choice.left.size() > 1) return true;
  const bool some_tuned = std::any_of(choices_.begin(), choices_.end(), [&](const Choice& other) {
    return other.tuning.setting == choice.tuning.setting && other.left.size() > 1;
  });
  return is_last(rung) && some_tuned && experiment_.tune_by == TuneBy::kTime &&
         choice.tuning.strategy == experiment_.target_from;
}

size_t RateChoice::kept(size_t rates, int rung) const {
  if (is_last(rung)) return 1;
  const double wanted = std::ceil(static_cast<double>(rates) * experiment_.halving.keep - 1e-9);
  return std::max<size_t>(1, static_cast<size_t>(wanted));
}

std::vector<Cell> RateChoice::cells(int rung) const {
  std::vector<Cell> out;
  const double part = std::pow(experiment_.halving.keep, experiment_.halving.rungs - 1 - rung);
  for (const Choice& choice : choices_) {
    if (!needed(choice, rung)) continue;
    for (const double rate : choice.left) {
      for (const uint64_t seed : experiment_.tune_seeds) {
        out.push_back({choice.tuning.strategy, choice.tuning.setting, rate, seed, part});
      }
    }
  }
  return out;
}

RateScore RateChoice::score(double rate, const std::vector<const CellOutcome*>& outcomes,
                            std::optional<double> target) const {
  RateScore out;
  out.rate = rate;
  std::vector<double> finals, seconds;
  for (const CellOutcome* outcome : outcomes) {
    ++out.runs;
    const auto final =
        outcome->bad() ? std::nullopt : final_score(outcome->result.run, experiment_);
    if (!final) {
      ++out.bad;
      continue;
    }
    finals.push_back(*final);
    if (!target) continue;
    if (const auto test = first_reaching(outcome->result.run, *target, experiment_.measure)) {
      seconds.push_back(test->seconds);
    }
  }
  out.final = summarize(finals);
  out.reached = static_cast<int>(seconds.size());
  out.seconds = summarize(seconds);
  return out;
}

// In the last rung, of the reference strategy's best rate there; it is judged before the others.
std::optional<double> RateChoice::target(const Setting& setting) const {
  if (experiment_.target_from < 0) return experiment_.targets.back();
  for (const Choice& choice : choices_) {
    const Tuning& tuning = choice.tuning;
    if (tuning.strategy != experiment_.target_from || !(tuning.setting == setting)) continue;
    if (!tuning.problem.empty() || tuning.rungs.empty()) return std::nullopt;
    const Summary& final = tuning.rungs.back().front().final;
    if (final.count > 0) return derived_target(experiment_, final.mean);
  }
  return std::nullopt;
}

void RateChoice::judge(Choice& choice, int rung, const std::vector<CellOutcome>& outcomes) {
  Tuning& tuning = choice.tuning;
  const bool reference = tuning.strategy == experiment_.target_from;
  std::optional<double> wanted;
  if (is_last(rung) && experiment_.tune_by == TuneBy::kTime && !reference) {
    wanted = target(tuning.setting);
  }
  std::vector<RateScore> scores;
  for (const double rate : choice.left) {
    std::vector<const CellOutcome*> mine;
    for (const CellOutcome& outcome : outcomes) {
      const Cell& cell = outcome.cell;
      if (cell.strategy != tuning.strategy || !(cell.setting == tuning.setting)) continue;
      if (cell.rate != rate) continue;
      mine.push_back(&outcome);
      if (outcome.state == State::kNotRun) tuning.problem = "not run";
    }
    tuning.runs += static_cast<int>(mine.size());
    scores.push_back(score(rate, mine, wanted));
  }
  std::sort(scores.begin(), scores.end(), [&](const RateScore& a, const RateScore& b) {
    const bool higher = experiment_.higher_is_better();
    return rank_of(a, wanted.has_value(), higher) < rank_of(b, wanted.has_value(), higher);
  });
  if (tuning.problem.empty() && scores.front().bad == scores.front().runs) {
    tuning.problem = "diverged or failed at every learning rate that was tried";
  }
  choice.left.clear();
  const size_t count = kept(scores.size(), rung);
  for (size_t i = 0; i < count; ++i) choice.left.push_back(scores[i].rate);
  std::sort(choice.left.begin(), choice.left.end());
  tuning.best = scores.front().rate;
  tuning.rungs.push_back(std::move(scores));
}

void RateChoice::judge(int rung, const std::vector<CellOutcome>& outcomes) {
  std::vector<Choice*> now;
  for (Choice& choice : choices_) {
    if (needed(choice, rung)) now.push_back(&choice);
  }
  std::stable_partition(now.begin(), now.end(), [&](const Choice* choice) {
    return choice->tuning.strategy == experiment_.target_from;
  });
  for (Choice* choice : now) judge(*choice, rung, outcomes);
}

void RateChoice::keep_first(int rung) {
  for (Choice& choice : choices_) choice.left.resize(kept(choice.left.size(), rung));
}

std::vector<Tuning> RateChoice::tunings() const {
  std::vector<Tuning> out;
  for (const Choice& choice : choices_) {
    Tuning tuning = choice.tuning;
    const std::vector<double>& rates =
        experiment_.strategies[static_cast<size_t>(tuning.strategy)].rates;
    tuning.at_edge =
        rates.size() > 1 && (tuning.best == rates.front() || tuning.best == rates.back());
    out.push_back(std::move(tuning));
  }
  return out;
}

}  // namespace kinet
