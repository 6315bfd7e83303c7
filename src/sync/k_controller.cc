#include "src/sync/k_controller.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"

namespace kinet {
namespace {

constexpr double kLeastChange = 0.1;  // of k, for rules that cannot say what they gain
constexpr int kIterations = 2;        // between decisions, when the interval is left to kinet
constexpr double kSettling = 8;       // iterations

void append_inputs(const KInputs& in, KTerms& terms) {
  terms.insert(terms.end(), {{"live", in.live},
                             {"k_before", in.k},
                             {"noise_known", in.noise_known ? 1 : 0},
                             {"noise", in.noise},
                             {"signal", in.signal},
                             {"momentum", in.momentum},
                             {"rate", in.rate},
                             {"momentum_norm", in.momentum_norm},
                             {"step_norm", in.step_norm},
                             {"weight_norm", in.weight_norm},
                             {"loss_first", in.loss_first},
                             {"loss_now", in.loss_now},
                             {"service_per_gradient", in.play.service.per_gradient},
                             {"service_per_round", in.play.service.per_round}});
  if (in.product_known) terms.emplace_back("product", in.product);
  if (in.arrivals) terms.emplace_back("workers_timed", in.arrivals->workers());
}

}  // namespace

KController::KController(const KControllerOptions& options, std::vector<NamedRule> rules)
    : options_(options), rules_(std::move(rules)) {
  KINET_CHECK(!rules_.empty(), "a controller of k needs a rule");
}

int KController::within_limits(int k, int live) const {
  const int most = options_.max > 0 ? std::min(options_.max, live) : live;
  return std::clamp(k, std::min(std::max(1, options_.min), most), most);
}

int KController::start(int live) {
  KINET_CHECK(live >= 1, "k is asked for {} workers", live);
  live_ = live;
  return k_ = within_limits(options_.start > 0 ? options_.start : live, live);
}

bool KController::settling() const {
  return options_.start == 0 && options_.interval == 0 && iterations_ <= kSettling;
}

bool KController::due(const KInputs& inputs) const {
  if (inputs.live != live_ || decided_ < 0) return true;
  if (inputs.round <= decided_) return false;
  int64_t interval = options_.interval;
  const int iterations = settling() ? 1 : kIterations;
  if (interval == 0) interval = std::max(1, iterations * inputs.live / std::max(1, inputs.k));
  return inputs.round - decided_ >= interval;
}

int KController::steady(const KProposal& proposal, const KInputs& inputs) const {
  const int wanted = within_limits(proposal.k, inputs.live);
  if (proposal.exact) return wanted;
  const bool worth = proposal.gain >= 0 ? proposal.gain >= options_.gain
                                        : std::abs(wanted - inputs.k) >= kLeastChange * inputs.k;
  if (!worth) return inputs.k;
  if (settling()) return wanted;
  return std::clamp(wanted, (inputs.k + 1) / 2, 2 * inputs.k);
}

KChoice KController::next(KInputs inputs) {
  if (k_ == 0) start(inputs.live);
  inputs.k = k_ = within_limits(k_, inputs.live);
  KChoice out;
  out.k = k_;
  if (inputs.round > observed_) {
    for (const NamedRule& rule : rules_) rule.rule->observe(inputs);
    observed_ = inputs.round;
    iterations_ += static_cast<double>(k_) / std::max(1, inputs.live);
  }
  if (!due(inputs)) {
    out.terms = {{"live", inputs.live}};
    return out;
  }
  out.decided = true;
  append_inputs(inputs, out.terms);
  int largest = 0;
  for (const NamedRule& rule : rules_) {
    KTerms terms;
    const KProposal proposal = rule.rule->propose(inputs, terms);
    const int k = steady(proposal, inputs);
    for (auto& [name, value] : terms) out.terms.emplace_back(rule.name + "." + name, value);
    out.terms.emplace_back(rule.name + ".k_wanted", proposal.k);
    if (proposal.gain >= 0) out.terms.emplace_back(rule.name + ".gain", proposal.gain);
    largest = std::max(largest, k);
  }
  std::erase_if(out.terms, [](const auto& term) { return !std::isfinite(term.second); });
  out.k = k_ = within_limits(largest, inputs.live);
  live_ = inputs.live;
  decided_ = inputs.round;
  return out;
}

bool KController::needs_product() const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [](const NamedRule& rule) { return rule.rule->needs_product(); });
}

// [ k, live, observed, decided, iterations, then for each rule: numbers, state ... ]
std::vector<double> KController::state() const {
  std::vector<double> out = {static_cast<double>(k_), static_cast<double>(live_),
                             static_cast<double>(observed_), static_cast<double>(decided_),
                             iterations_};
  for (const NamedRule& rule : rules_) {
    const std::vector<double> state = rule.rule->state();
    out.push_back(static_cast<double>(state.size()));
    out.insert(out.end(), state.begin(), state.end());
  }
  return out;
}

void KController::restore(const std::vector<double>& state) {
  const char* const other = "the saved state of k does not belong to these rules (k_rule changed?)";
  size_t at = 5;
  std::vector<std::span<const double>> parts;
  for (size_t i = 0; i < rules_.size(); ++i) {
    KINET_CHECK(at < state.size(), "{}", other);
    const double n = state[at++];
    KINET_CHECK(n >= 0 && n <= static_cast<double>(state.size() - at), "{}", other);
    parts.push_back(std::span(state).subspan(at, static_cast<size_t>(n)));
    at += static_cast<size_t>(n);
  }
  KINET_CHECK(at == state.size(), "{}", other);
  for (size_t i = 0; i < rules_.size(); ++i) rules_[i].rule->restore(parts[i]);
  k_ = static_cast<int>(state[0]);
  live_ = static_cast<int>(state[1]);
  observed_ = static_cast<int64_t>(state[2]);
  decided_ = static_cast<int64_t>(state[3]);
  iterations_ = state[4];
}

}  // namespace kinet
