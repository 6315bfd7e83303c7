// What the tests of the rules for k share: scripted clusters and inputs, and a controller from
// text.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/sync/k_controller.h"

namespace kinet::k_rule_cases {

inline const MessageType& fields() {
  static const MessageType type{"sync_param", "", k_rule_fields()};
  return type;
}

inline std::unique_ptr<KController> make(const std::string& text) {
  Diagnostics diagnostics;
  const ParamNode node = parse_prototxt(text, "s.prototxt", diagnostics);
  validate(node, fields(), "sync_param", diagnostics);
  diagnostics.throw_if_any();
  return make_k_controller(Params(&node, &fields()));
}

inline std::string error_of(const std::string& text) {
  try {
    make(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The kinds of cluster; times have mean 1.
enum class Clock { kAlike, kMachines, kSlowDowns };

inline float gamma_like(Rng& rng, double spread) {  // log-normal of mean 1
  const double sigma = std::sqrt(std::log(1 + spread * spread));
  return static_cast<float>(std::exp(sigma * rng.gaussian() - sigma * sigma / 2));
}

inline ArrivalModel cluster(Clock clock, int workers, uint64_t seed = 1) {
  ArrivalModel model;
  Rng rng(seed);
  for (int worker = 0; worker < workers; ++worker) {
    const double machine = clock == Clock::kMachines ? gamma_like(rng, 0.6) : 1;
    for (int i = 0; i < 8; ++i) {
      const bool slow = clock == Clock::kSlowDowns && rng.bernoulli(0.1F);
      model.add(worker, machine * gamma_like(rng, 0.1) * (slow ? 5 : 1));
    }
  }
  return model;
}

inline ArrivalModel one_straggler(int workers, double factor) {
  ArrivalModel model;
  for (int worker = 0; worker < workers; ++worker) {
    for (int i = 0; i < 8; ++i) model.add(worker, worker == 1 ? factor : 1);
  }
  return model;
}

// Typical inputs of training with momentum 0.9: |v| as long as a step, noise as large as the
// signal.
inline KInputs typical(int live, const ArrivalModel* arrivals) {
  KInputs in;
  in.live = live;
  in.arrivals = arrivals;
  in.noise_known = true;
  in.noise = 0.3 * live;
  in.signal = 1;
  in.momentum = 0.9;
  in.rate = 0.1;
  in.momentum_norm = in.step_norm = 0.14;
  in.weight_norm = 20;
  return in;
}

// The k at which the controller settles when the inputs stay.
inline int settled(const std::string& text, KInputs in, int rounds = 200) {
  const std::unique_ptr<KController> controller = make(text);
  int k = controller->start(in.live);
  for (in.round = 0; in.round < rounds; ++in.round) {
    k = controller->next(in).k;
    EXPECT_GE(k, 1);
    EXPECT_LE(k, in.live);
  }
  return k;
}

inline std::vector<int> sequence(KController& controller, KInputs in, int rounds) {
  std::vector<int> out;
  for (int i = 0; i < rounds; ++i, ++in.round) out.push_back(controller.next(in).k);
  return out;
}

inline double term(const KChoice& choice, const std::string& name) {
  for (const auto& [key, value] : choice.terms) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no term " << name;
  return 0;
}

}  // namespace kinet::k_rule_cases
