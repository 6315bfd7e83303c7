// Successive halving over learning rates, for every strategy in every setting of tuning.
// Reference: Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter
//   optimization", AISTATS 2016.
// Thread safety: none.
#pragma once

#include <vector>

#include "src/sim/experiment_grid.h"

namespace kinet {

class RateChoice {
 public:
  explicit RateChoice(const Experiment& experiment);

  // What is to be run in a rung (0 is the first); none where a rate is settled already.
  std::vector<Cell> cells(int rung) const;
  // Their outcomes, in the same order: which rates go on; after the last rung, which is best.
  void judge(int rung, const std::vector<CellOutcome>& outcomes);
  // In place of judge(), for plans: the first ones go on.
  void keep_first(int rung);

  std::vector<Tuning> tunings() const;

 private:
  struct Choice {
    Tuning tuning;
    std::vector<double> left;
  };

  bool is_last(int rung) const { return rung + 1 == experiment_.halving.rungs; }
  bool needed(const Choice& choice, int rung) const;
  size_t kept(size_t rates, int rung) const;
  RateScore score(double rate, const std::vector<const CellOutcome*>& outcomes,
                  std::optional<double> target) const;
  std::optional<double> target(const Setting& setting) const;
  void judge(Choice& choice, int rung, const std::vector<CellOutcome>& outcomes);

  const Experiment& experiment_;
  std::vector<Choice> choices_;  // settings x strategies
};

}  // namespace kinet
