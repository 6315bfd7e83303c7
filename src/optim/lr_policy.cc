#include "src/optim/lr_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kinet {
namespace {

// Reports a field that the policy needs and the file does not give.
void need(const Params& solver, const std::string& policy, const std::vector<std::string>& fields,
          Diagnostics& diagnostics) {
  for (const std::string& field : fields) {
    if (solver.has(field)) continue;
    diagnostics.error(solver.where("lr_policy"),
                      fmt::format("lr_policy \"{}\" needs '{}', which is missing", policy, field));
  }
}

std::vector<std::string> needed_fields(const std::string& policy) {
  if (policy == "step") return {"gamma", "stepsize"};
  if (policy == "exp") return {"gamma"};
  if (policy == "inv") return {"gamma", "power"};
  if (policy == "multistep") return {"gamma", "stepvalue"};
  if (policy == "poly") return {"power"};
  if (policy == "sigmoid") return {"gamma", "stepsize"};
  return {};
}

// Negative values with which the policy's formula has no finite rate of the sign of base_lr.
std::vector<std::string> not_negative(const std::string& policy) {
  if (policy == "step" || policy == "exp" || policy == "inv" || policy == "multistep") {
    return {"gamma", "warmup_start_lr"};
  }
  if (policy == "poly") return {"power", "warmup_start_lr"};
  return {"warmup_start_lr"};
}

void check(const Params& solver, const LrPolicy& p, Diagnostics& diagnostics) {
  need(solver, p.policy, needed_fields(p.policy), diagnostics);
  if (p.base_lr < 0 || !std::isfinite(p.base_lr)) {
    diagnostics.error(solver.where("base_lr"),
                      fmt::format("base_lr must be finite and not negative, got {:g}", p.base_lr));
  }
  for (const std::string& field : not_negative(p.policy)) {
    if (!solver.has(field) || solver.get_double(field) >= 0) continue;
    diagnostics.error(solver.where(field),
                      fmt::format("{} must not be negative with lr_policy \"{}\", got {:g}", field,
                                  p.policy, solver.get_double(field)));
  }
  if (p.policy == "step" && solver.has("stepsize") && p.stepsize <= 0) {
    diagnostics.error(solver.where("stepsize"),
                      fmt::format("stepsize must be positive, got {}", p.stepsize));
  }
  for (size_t i = 1; i < p.stepvalues.size(); ++i) {
    if (p.stepvalues[i] > p.stepvalues[i - 1]) continue;
    diagnostics.error(solver.where("stepvalue"),
                      fmt::format("stepvalues must ascend, but {} follows {}", p.stepvalues[i],
                                  p.stepvalues[i - 1]));
  }
  if (p.warmup_iter < 0) {
    diagnostics.error(solver.where("warmup_iter"), "warmup_iter must not be negative");
  }
}

// The part of a run that is over, in [0, 1]; 1 when max_iter is not positive.
double progress(const LrPolicy& p, double i) {
  return p.max_iter > 0 ? std::min(1.0, i / static_cast<double>(p.max_iter)) : 1.0;
}

double without_warmup(const LrPolicy& p, int64_t iteration) {
  const auto i = static_cast<double>(iteration);
  if (p.policy == "step") {
    const int64_t steps = iteration / p.stepsize;  // whole ones
    return p.base_lr * std::pow(p.gamma, static_cast<double>(steps));
  }
  if (p.policy == "exp") return p.base_lr * std::pow(p.gamma, i);
  if (p.policy == "inv") return p.base_lr * std::pow(1 + p.gamma * i, -p.power);
  if (p.policy == "multistep") {
    const auto passed = std::upper_bound(p.stepvalues.begin(), p.stepvalues.end(), iteration);
    return p.base_lr * std::pow(p.gamma, static_cast<double>(passed - p.stepvalues.begin()));
  }
  if (p.policy == "poly") {
    const double left = 1 - progress(p, i);
    return left > 0 ? p.base_lr * std::pow(left, p.power) : 0;
  }
  if (p.policy == "sigmoid") {
    return p.base_lr / (1 + std::exp(-p.gamma * (i - static_cast<double>(p.stepsize))));
  }
  if (p.policy == "cosine") {
    const double done = progress(p, i);
    return done < 1 ? p.base_lr * (1 + std::cos(std::numbers::pi * done)) / 2 : 0;
  }
  return p.base_lr;  // fixed
}

}  // namespace

std::vector<std::string> lr_policy_names() {
  return {"fixed", "step", "exp", "inv", "multistep", "poly", "sigmoid", "cosine"};
}

LrPolicy read_lr_policy(const Params& solver, Diagnostics& diagnostics) {
  LrPolicy p;
  p.policy = solver.get_enum("lr_policy");
  p.base_lr = solver.get_double("base_lr");
  p.gamma = solver.get_double("gamma");
  p.power = solver.get_double("power");
  p.stepsize = solver.get_int("stepsize");
  p.stepvalues = solver.get_ints("stepvalue");
  p.max_iter = solver.get_int("max_iter");
  p.warmup_iter = solver.get_int("warmup_iter");
  if (solver.has("warmup_start_lr")) p.warmup_start_lr = solver.get_double("warmup_start_lr");
  check(solver, p, diagnostics);
  return p;
}

double learning_rate(const LrPolicy& policy, int64_t iteration) {
  const double rate = without_warmup(policy, iteration);
  if (iteration >= policy.warmup_iter) return rate;
  const auto length = static_cast<double>(policy.warmup_iter);
  const double start = policy.warmup_start_lr.value_or(policy.base_lr / (length + 1));
  return start + (rate - start) * static_cast<double>(iteration) / length;
}

}  // namespace kinet
