#include "src/sync/models/counted_rounds.h"

#include <algorithm>
#include <set>

namespace kinet {

namespace {
constexpr int kMostSlots = 8;
}

int CountedRounds::slots() const {
  return rule().keep_going ? std::clamp(largest_k() + 1, 2, kMostSlots) : 2;
}

std::optional<Plan> CountedRounds::late() const {
  Plan plan;
  for (const Gradient& g : held()) {
    if (lag(g) > 0) plan.members.push_back(member(g, 0, Use::kDrop));
  }
  if (plan.members.empty()) return std::nullopt;
  plan.k = k();
  return plan;
}

std::optional<Plan> CountedRounds::keep_going() const {
  Plan plan;
  for (int w = 0; w < workers(); ++w) {
    if (alive(w) && waiting(w) && held_of(w) < slots()) plan.answer.push_back(w);
  }
  if (plan.answer.empty()) return std::nullopt;
  plan.k = k();
  return plan;
}

std::optional<Plan> CountedRounds::decide(double) {
  const RoundRule r = rule();
  if (!r.any_version) {
    if (auto plan = late()) return plan;
  }
  Plan plan;
  // More mini-batches than workers have room for would never come together.
  plan.k = std::clamp(k(), 1, std::max(1, r.distinct ? live() : live() * slots()));
  const auto short_of_k = [&] { return r.keep_going ? keep_going() : std::nullopt; };
  if (static_cast<int>(held().size()) < plan.k) return short_of_k();
  std::set<int> seen;
  for (const Gradient& g : held()) {
    if (static_cast<int>(plan.members.size()) == plan.k) break;
    if (r.distinct && !seen.insert(g.worker).second) continue;
    plan.members.push_back(member(g, 0, use()));
  }
  if (static_cast<int>(plan.members.size()) < plan.k) return short_of_k();
  for (PlanMember& m : plan.members) {
    m.weight = weight(plan.k);
    const bool last =
        std::find(plan.answer.begin(), plan.answer.end(), m.worker) == plan.answer.end();
    if (last && alive(m.worker) && waiting(m.worker)) plan.answer.push_back(m.worker);
  }
  for (int w = 0; w < workers(); ++w) {
    if (r.cancel && alive(w) && !waiting(w)) plan.cancel.push_back(w);
  }
  return plan;
}

}  // namespace kinet
