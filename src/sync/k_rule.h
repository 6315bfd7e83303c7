// Rules that choose k, the number of gradients that a round waits for. One file for each rule under
// k_rules/; KController (k_controller.h) asks them and keeps their answers steady.
//
// Notation: N live workers; a round is one publication of new weights, an iteration is N gradients
// (N/k rounds); T and G2 as in gradient_noise.h; gamma the momentum; v the mean of the workers'
// momenta with the learning rate inside, so |v| is a length in weights; s = |theta_{t+1} - theta_t|
// of one iteration.
//
// A rule is a function of KInputs and of what it has kept from former ones. It reads no clock and
// draws no random number: the same inputs give the same k, in a replay and after a resume.
//
// Thread safety: a rule belongs to one thread. Invariants: after state() and restore() a rule goes
// on as if nothing had happened.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/registry.h"
#include "src/prototxt/fields.h"
#include "src/sync/arrival_model.h"

namespace kinet {

// What is measured when a round ends.
struct KInputs {
  int live = 1;       // N: workers that are alive
  int k = 1;          // of the round that ended; KController sets it
  int64_t round = 0;  // number of the round that ended

  const ArrivalModel* arrivals = nullptr;  // null: no times are known
  PlayOptions play;                        // the server's own time, and what becomes of late ones

  bool noise_known = false;
  double noise = 0, signal = 0;  // T and G2 of gradient_noise.h; signal may be <= 0

  double momentum = 0;       // gamma
  double rate = 0;           // eta, mean over the workers
  double momentum_norm = 0;  // |v| of the mean of the workers' momenta; 0: not known yet
  double step_norm = 0;      // s, averaged over some iterations; 0: not known yet
  double weight_norm = 0;    // |theta|; 0: not known yet

  double loss_first = 0, loss_now = 0;  // F of the first rounds and of the last ones; 0: unknown

  bool product_known = false;
  double product = 0;  // <gbar_t, gbar_{t-1}> of successive mean gradients
};

// Numbers that decided, by name, in the order in which they were found.
using KTerms = std::vector<std::pair<std::string, double>>;

struct KProposal {
  int k = 1;
  // What the rule expects to win over the present k: 0.1 is 10 %. Below 0: it cannot say.
  double gain = -1;
  // The rule's steps are part of it: no hysteresis.
  bool exact = false;
};

class KRule {
 public:
  virtual ~KRule() = default;

  // After every round, decided or not.
  virtual void observe(const KInputs&) {}
  // When a decision is due. Appends to `terms`.
  virtual KProposal propose(const KInputs& inputs, KTerms& terms) const = 0;
  // Reads KInputs::product, which costs the server one more vector.
  virtual bool needs_product() const { return false; }

  virtual std::vector<double> state() const { return {}; }
  virtual void restore(std::span<const double> state);  // what state() gave; else throws Error
};

// What a registered rule tells about itself.
struct KRuleType {
  std::string name;           // "goodput_lag"
  std::string help;           // one line: the rule
  std::vector<Field> fields;  // its constants; rules may share one, declared alike
  std::unique_ptr<KRule> (*make)(const Params& sync_param) = nullptr;
};

using KRuleRegistry = Registry<KRuleType>;

template <class Class>
bool register_k_rule() {
  KRuleType type = Class::describe();
  type.make = [](const Params& sync_param) -> std::unique_ptr<KRule> {
    return std::make_unique<Class>(sync_param);
  };
  const std::string name = type.name;
  return KRuleRegistry::instance().add(name, std::move(type));
}

#define KINET_REGISTER_K_RULE(Class) \
  [[maybe_unused]] static const bool kRegistered##Class = ::kinet::register_k_rule<Class>()

// ---- for rules ----------------------------------------------------------------------------------

// All k up to 8; beyond, geometric steps of a quarter, and N-1, N-2, N-4, because leaving out a few
// stragglers is what most clusters need. `present` is always among them. Ascending.
std::vector<int> candidate_ks(int live, int present);

// The k of the largest score, the larger one of equals; its gain over the present k.
struct KScore {
  int k = 1;
  double score = 0;
};
KProposal best_of(const std::vector<KScore>& scores, int present);
// The largest k whose score is at least 1 - slack of the best one. REQUIRES: ascending k
KProposal largest_within(double slack, const std::vector<KScore>& scores, int present);

// The least k that is not below a real number, in 1 .. live; not a number stands for live. What
// rounding put above a whole number counts as that number.
int ceil_k(double k, int live);

// A float field that must be > 0; throws at its position in the file otherwise.
double positive(const Params& sync_param, const std::string& field);

}  // namespace kinet
