// What a gradient is worth that was computed for weights which have moved since.
//
// Equation:  worth(lag) = 1 / (1 + turn lag)           lag in iterations
//            turn       = sqrt(1 + T/(N G2)) gap / h
//            gap        = (1 + gamma) |v| / |theta|    of an iteration, relative to the weights
// |v| is how far momentum carries the weights in an iteration, and the gradient's own first step is
// (1 + gamma) eta g. Over a gap of h, relative to the weights, the true gradient turns by about its
// own length. T/(N G2) is the noise of an iteration's mean gradient: signal and noise move the
// weights alike, but only the signal is progress, so the same gap is a larger part of it.
//
// Source: kinet's own; that staleness is to be measured as a gap in weights, and that a gradient
// loses 1 / (1 + gap): Barkai et al., "Gap-Aware", ICLR 2020.
// Thread safety: none, its owner's thread.
#pragma once

#include <span>
#include <vector>

#include "src/sync/k_rule.h"

namespace kinet {

constexpr double kDrowned = 1e6;  // the noise where the signal is lost in it

double relative_gap(const KInputs& in);    // 0 or not finite: not known yet
double relative_noise(const KInputs& in);  // T/(N G2), at most kDrowned; 0: not known yet
double turn_per_iteration(double gap, double noise, double half);
inline double late_worth(double turn, double lag) { return 1 / (1 + turn * lag); }

// Weights of gradients by what they are worth. They are relative: to the mean worth of recent
// gradients, so that a gradient counts 1 on average and the learning rate means what it did. Where
// all are late by the same time, all count 1.
class LateWeights {
 public:
  // `half`: h.
  explicit LateWeights(double half) : half_(half) {}

  void measure(const KInputs& in);
  // Of the next gradient, `lag` iterations late, of `live` workers; at most 2. 1: nothing is known.
  double next(double lag, int live);

  std::vector<double> state() const { return {turn_, mean_}; }
  void restore(std::span<const double> state);  // what state() gave; else throws Error

 private:
  double half_;
  double turn_ = 0;  // 0: not known yet
  double mean_ = 0;  // worth, over some two iterations; 0: none yet
};

}  // namespace kinet
