#include "src/sync/sapus_bound.h"

#include <algorithm>
#include <cmath>

namespace kinet {
namespace {

constexpr double kAim = 0.9;        // of the link's budget
constexpr double kNew = 0.2;        // weight of the newest measurement
constexpr double kMostSteps = 1e6;  // of a bound: a measurement that is wrong must not end training

void follow(double& mean, double value) {
  if (!(value > 0) || !std::isfinite(value)) return;
  mean = mean > 0 ? (1 - kNew) * mean + kNew * value : value;
}

double at_least_one(double steps) { return std::clamp(steps, 1.0, kMostSteps); }

}  // namespace

SapusBound::SapusBound(const SapusBudget& budget, int workers, double floats)
    : budget_(budget), bytes_(8 * floats), paces_(static_cast<size_t>(workers), 0.0) {}

void SapusBound::pushed(int worker, int64_t steps, double seconds) {
  if (seconds > 0) follow(paces_[worker], static_cast<double>(steps) / seconds);
}

void SapusBound::served(double seconds) { follow(service_, seconds); }

void SapusBound::forget(int worker) { paces_[worker] = 0; }

SapusBound::Bounds SapusBound::bounds(int live) const {
  Bounds out;
  double known = 0, fastest = 0;
  for (const double pace : paces_) {
    out.pace += pace;
    known += pace > 0 ? 1 : 0;
    fastest = std::max(fastest, pace);
  }
  if (known == 0) {
    if (budget_.link_budget > 0) out.steps = budget_.first;
    return out;
  }
  out.pace *= std::max(live / known, 1.0);
  if (budget_.server_share > 0) {
    out.servers = at_least_one(out.pace * service_ / budget_.server_share);
  }
  if (budget_.link_budget > 0) {
    out.link = at_least_one(bytes_ * out.pace / (kAim * budget_.link_budget));
  }
  if (budget_.exchange_share > 0) {
    const double carried = budget_.worker_link > 0 ? bytes_ / budget_.worker_link : 0;
    out.workers = at_least_one((carried + service_) * fastest / budget_.exchange_share);
  }
  out.steps = std::llround(std::ceil(std::max({out.servers, out.link, out.workers}) - 1e-9));
  return out;
}

std::vector<double> SapusBound::state() const {
  std::vector<double> out = paces_;
  out.push_back(service_);
  return out;
}

void SapusBound::restore(const std::vector<double>& state) {
  if (state.size() != state_size()) return;
  std::copy(state.begin(), state.end() - 1, paces_.begin());
  service_ = state.back();
}

}  // namespace kinet
