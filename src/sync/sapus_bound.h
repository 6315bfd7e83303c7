// The performance model of sapus: how many steps a worker has to make between two exchanges so that
// servers, network and workers are not kept busy with exchanges. Our design (docs/rivals_sapus.md).
//
// Measured: t_a, seconds that the servers need for a push; s_i, steps a second of worker i, from an
// answer to the push. R = sum of s_i, over the live workers. d parameters, of which an exchange
// carries 8 d bytes, up and down.
//   servers    R t_a / H            <= rho                 H >= R t_a / rho
//   link       R 8 d / H            <= 0.9 budget          H >= 8 d R / (0.9 budget)
//   workers    8 d / link + t_a     <= eps H / max s_i     H >= (8 d / link + t_a) max s_i / eps
// H is the largest of them, at least 1. Running means with the weight 0.2 for what is new. A tenth
// of the link's budget is kept back for seconds in which more exchanges meet than on average; as
// long as nothing is measured, a budget is kept by H = `first`. Memory needs no bound: every worker
// has its slots at the servers, allocated when they begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kinet {

struct SapusBudget {
  double server_share = 0.2;    // rho; 0: no bound
  double link_budget = 0;       // bytes a second; 0: no bound
  double worker_link = 0;       // bytes a second; 0: infinitely fast
  double exchange_share = 0.2;  // eps; 0: no bound
  int64_t first = 1;
};

class SapusBound {
 public:
  SapusBound() = default;
  SapusBound(const SapusBudget& budget, int workers, double floats);

  void pushed(int worker, int64_t steps, double seconds);
  void served(double seconds);  // a push took the servers so long
  void forget(int worker);

  struct Bounds {
    double servers = 1, link = 1, workers = 1;
    double pace = 0;    // R
    int64_t steps = 1;  // H
  };
  // Workers that have not pushed yet count as the mean of those that have.
  Bounds bounds(int live) const;

  std::vector<double> state() const;
  void restore(const std::vector<double>& state);
  size_t state_size() const { return paces_.size() + 1; }

 private:
  SapusBudget budget_;
  double bytes_ = 0;           // of an exchange
  std::vector<double> paces_;  // s_i; 0: not known
  double service_ = 0;         // t_a; 0: not known
};

}  // namespace kinet
