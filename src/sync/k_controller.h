// Decides k: asks the rules of sync_param, takes the largest answer, and keeps it steady.
//
// A decision is due after the first round, then every `k_interval` rounds, and at once when the
// number of live workers changed:
//   - never more than the live workers: a death lowers a k that counted on all of them at once
//   - hysteresis: a new k must promise a gain of at least `k_gain` over the present one, and a rule
//     that cannot say what it gains must ask for a change of at least a tenth of k
//   - at most half or twice the k in one decision
// Where neither the first k nor the interval is given, the first eight iterations of a run are for
// finding it: a decision after each, as far as the rule says. Where workers differ, a round of all
// of them takes several times as long as one without the slow ones.
//
//   - k_min <= k <= k_max, as far as the live workers go
// Rules that bring their own steps (fixed, sign) are followed exactly.
//
// A run with k_gain 0.05, k 8, N 32: a rule promises 3 % for k 7: kept. It promises 8 % for k 2:
// k becomes 4. At the next decision it promises 6 % for k 2: k becomes 2. A worker dies while
// k is 32: k becomes 31 at once, and the rules are asked.
//
// Thread safety: none, its owner's thread. Nothing here reads a clock or a random device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/sync/k_rule.h"

namespace kinet {

struct KChoice {
  int k = 1;             // of the next round
  bool decided = false;  // the rules were asked; else only k and live are said
  // Every input and intermediate number that decided, for metrics.jsonl. Terms of a rule carry its
  // name in front: "goodput_lag.throughput". Numbers that are not finite are left out.
  KTerms terms;
};

struct KControllerOptions {
  int start = 0;         // k of the first round; 0: all workers
  int min = 1, max = 0;  // 0: all workers
  int interval = 0;      // rounds between decisions; 0: as many as make two iterations
  double gain = 0.05;    // least promised gain for which k changes
};

class KController {
 public:
  struct NamedRule {
    std::string name;
    std::unique_ptr<KRule> rule;
  };

  // REQUIRES: at least one rule
  KController(const KControllerOptions& options, std::vector<NamedRule> rules);

  // k of the first round.
  int start(int live);
  // After each round (with a new round number), and when a worker died or joined (with the number
  // of the last round). inputs.k is ignored: the controller knows its own k.
  KChoice next(KInputs inputs);

  int k() const { return k_; }
  bool needs_product() const;  // a rule reads the inner product of successive gradients

  // For snapshots. Restoring the state of other rules throws Error.
  std::vector<double> state() const;
  void restore(const std::vector<double>& state);

 private:
  bool due(const KInputs& inputs) const;
  int within_limits(int k, int live) const;
  int steady(const KProposal& proposal, const KInputs& inputs) const;
  bool settling() const;

  KControllerOptions options_;
  std::vector<NamedRule> rules_;
  int k_ = 0;                             // 0: not started
  int live_ = 0;                          // at the last call
  int64_t observed_ = -1, decided_ = -1;  // rounds
  double iterations_ = 0;                 // observed
};

// The fields for sync_param: k_rule, k, k_min ... and the constants of all rules.
std::vector<Field> k_rule_fields();
// REQUIRES: the type of `sync_param` has k_rule_fields(). Throws Error at the place in the file.
// `least`: k_min where the file gives none.
std::unique_ptr<KController> make_k_controller(const Params& sync_param, int least = 1);

}  // namespace kinet
