#include "src/sync/lr_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kinet {
namespace {

constexpr double kPassesAStep = 3;
// A pass of a search costs more than a third of a step: weights are copied, and kernels that are
// bound by memory run as long forward as backward.
constexpr double kPassWeight = 1.5;
// Steps whose budget may be used before they are done: searches are most needed at the start.
constexpr double kAhead = 200;

std::vector<EnumValue> method_values() {
  std::vector<EnumValue> values{{"none", 0}};
  for (const std::string& name : LrMethodRegistry::instance().names()) {
    values.push_back({name, static_cast<int>(values.size())});
  }
  return values;
}

std::string method_help() {
  std::string help = "how a rate is found; none: the schedule alone";
  for (const std::string& name : LrMethodRegistry::instance().names()) {
    help += fmt::format("; {}: {}", name, LrMethodRegistry::instance().find(name)->help);
  }
  return help;
}

}  // namespace

LrSearch::LrSearch(const LrSearchOptions& options)
    : options_(options),
      method_(LrMethodRegistry::instance().find(options.method)->make(options)) {}

double LrSearch::multiplier() const {
  const auto steps = static_cast<double>(std::clamp<int64_t>(state_.step, 1, options_.warmup));
  return std::exp(state_.log_multiplier) * (steps / static_cast<double>(options_.warmup));
}

double LrSearch::reach() const {
  return (1 - std::pow(options_.momentum, options_.horizon)) / (1 - options_.momentum);
}

void LrSearch::search(LrProbe& probe) {
  const bool first = state_.searches == 0;
  const double rate = options_.base_lr * std::exp(state_.log_multiplier);
  const double found = method_->propose(probe, {rate, reach(), first});
  state_.passes += probe.passes();
  if (std::isfinite(found) && found > 0) {
    const double limit = std::log(options_.bounds);
    const double log_found = std::clamp(std::log(found / options_.base_lr), -limit, limit);
    const double share = 1 / static_cast<double>(++state_.searches);
    const double weight = method_->every_step() ? 1 : std::max(share, options_.smoothing);
    state_.log_multiplier += weight * (log_found - state_.log_multiplier);
    if (method_->every_step() || state_.step < options_.rise_until) {
      state_.log_ceiling = state_.log_multiplier;
    }
    state_.log_multiplier = std::min(state_.log_multiplier, state_.log_ceiling);
  }
  state_.next = next_search();
}

// In steps. Charged is what searches may take, not what they took: the same for all workers.
int64_t LrSearch::next_search() const {
  const auto done = static_cast<double>(std::max<int64_t>(state_.searches, 1));
  const auto every = static_cast<double>(options_.every);
  const double interval = std::min(every, std::pow(options_.growth, done - 1));
  const double charged = static_cast<double>(method_->most_passes(true)) +
                         done * static_cast<double>(method_->most_passes(false));
  const double affordable = kPassWeight * charged / (kPassesAStep * options_.budget) - kAhead;
  return std::max(state_.step + static_cast<int64_t>(std::ceil(interval)),
                  static_cast<int64_t>(std::ceil(affordable)));
}

const MessageType& lr_search_fields() {
  static const MessageType type{
      "lr_search_param",
      "Every worker looks for its own learning rate along its mini-batch, around the schedule.",
      {enum_field("method", method_values(), "none", method_help()),
       uint_field("every", "1000", "most iterations between two searches; they begin with 1"),
       float_field("growth", "1.5", "each interval is so many times the one before, at least 1"),
       float_field("bounds", "64", "the rate stays within schedule / bounds and schedule * bounds"),
       float_field("smoothing", "0.1",
                   "least weight of a new search against all before, in the logarithm, (0, 1]; the "
                   "n-th has at least 1 / n"),
       uint_field("warmup", "20",
                  "first iterations, in which a rising part of the found rate is used; 1: none"),
       uint_field("rise_until", "100",
                  "iterations after which the rate rises no higher than it was then"),
       float_field("budget", "0.1", "largest share of the passes that searches may take, (0, 1]"),
       float_field("sufficient", "0.1",
                   "armijo and barzilai_borwein: share of the decrease that the slope promises "
                   "which a step must reach, [0, 1); more is more careful"),
       float_field(
           "horizon", "4",
           "armijo and barzilai_borwein: a step is tried as long as momentum makes it in so "
           "many updates, at least 1"),
       float_field("sensitivity", "0.02",
                   "hypergradient: relative change of the rate in a step when gradient and last "
                   "update are parallel")}};
  return type;
}

LrSearchOptions read_lr_search(const Params& solver, Diagnostics& diagnostics) {
  const Params p = solver.message("lr_search_param");
  LrSearchOptions o;
  o.method = p.get_enum("method");
  o.base_lr = solver.get_double("base_lr");
  o.momentum = solver.get_double("momentum");
  o.every = p.get_int("every");
  o.warmup = p.get_int("warmup");
  o.rise_until = p.get_int("rise_until");
  o.growth = p.get_double("growth");
  o.bounds = p.get_double("bounds");
  o.smoothing = p.get_double("smoothing");
  o.budget = p.get_double("budget");
  o.sufficient = p.get_double("sufficient");
  o.horizon = p.get_double("horizon");
  o.sensitivity = p.get_double("sensitivity");
  const auto want = [&](bool condition, const char* field, const char* range) {
    if (!condition) diagnostics.error(p.where(field), fmt::format("{} must be {}", field, range));
  };
  want(o.every >= 1, "every", "at least 1");
  want(o.warmup >= 1, "warmup", "at least 1");
  want(o.growth >= 1, "growth", "at least 1");
  want(o.bounds > 1, "bounds", "more than 1");
  want(o.smoothing > 0 && o.smoothing <= 1, "smoothing", "above 0 and at most 1");
  want(o.budget > 0 && o.budget <= 1, "budget", "above 0 and at most 1");
  want(o.sufficient >= 0 && o.sufficient < 1, "sufficient", "at least 0 and below 1");
  want(o.horizon >= 1, "horizon", "at least 1");
  want(o.sensitivity > 0 && o.sensitivity < 1, "sensitivity", "above 0 and below 1");
  const std::string type = solver.get_string("type");
  if (o.method == "none") return o;
  if (type != "SGD" && type != "Nesterov") {
    diagnostics.error(p.where("method"),
                      fmt::format("lr_search_param: {} scales each weight's step by itself, so a "
                                  "rate found along the gradient means nothing to it\nhint: use "
                                  "type: \"SGD\" or \"Nesterov\", or method: none",
                                  type));
  }
  if (!(o.base_lr > 0)) {
    diagnostics.error(solver.where("base_lr"),
                      "lr_search_param needs a base_lr above 0: the search is around it");
  }
  return o;
}

}  // namespace kinet
